"""AWS_MSK_IAM: a login by AWS credentials, as a signed address in a token of OAUTHBEARER.

MSK takes both mechanisms on the same port; librdkafka has this one alone. The token is made as
AWS's own signers make it (aws-msk-iam-sasl-signer).
"""

from __future__ import annotations

import base64
import importlib.util
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.login.oauth import HANDLER, OAuthLogin
from core.cluster.kafka.connection.login.token_sources import Token
from core.errors import DocumentError, LoginRefusedError, UnreachableError

AWS_MSK_IAM = "AWS_MSK_IAM"
LIFETIME_SECONDS = 900
"""The most that MSK takes."""
_CLIENT_HANDLER = "sasl.client.callback.handler.class"
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Signs with what AWS's own tools find: environment, profile, instance or pod."""

    region: str
    profile: str = ""
    role: str = ""
    """The ARN of a role that is assumed."""
    session_name: str = "trimtab"

    def fetch(self) -> Token:
        """Return a token; raises LoginRefusedError without credentials, UnreachableError."""
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            credentials = self._credentials()
            host = f"kafka.{self.region}.amazonaws.com"
            request = AWSRequest("GET", f"https://{host}/", params=_ACTION)
            signer = SigV4QueryAuth(credentials, "kafka-cluster", self.region, LIFETIME_SECONDS)
            signer.add_auth(request)
        except ClientError as error:
            raise LoginRefusedError(
                f"AWS gives no token: {error}.", next="Check the role in sasl.jaas.config."
            ) from error
        except BotoCoreError as error:
            raise UnreachableError(
                f"AWS gives no token: {error}.",
                next="Check the profile, and the credentials that AWS's tools use here.",
            ) from error
        address = f"{request.url}&User-Agent=trimtab".encode()
        value = base64.urlsafe_b64encode(address).decode().rstrip("=")
        return Token(value, credentials.access_key, time.time() + LIFETIME_SECONDS)

    def _credentials(self) -> Any:
        from botocore.credentials import Credentials
        from botocore.session import Session

        session = Session(profile=self.profile or None)
        credentials = session.get_credentials()
        if credentials is None:
            raise LoginRefusedError(
                "There are no AWS credentials.",
                next="Set them as for AWS's tools, or name a profile: awsProfileName=… in "
                "sasl.jaas.config.",
            )
        if not self.role:
            return credentials.get_frozen_credentials()
        sts = session.create_client("sts", region_name=self.region)
        given = sts.assume_role(RoleArn=self.role, RoleSessionName=self.session_name)["Credentials"]
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


_ACTION = {"Action": "kafka-cluster:Connect"}


def read_msk_iam(
    entries: dict[str, str], options: Mapping[str, str], bootstrap: str, path: Path
) -> OAuthLogin:
    """Take a login by AWS credentials out of a file's properties; raises DocumentError."""
    for name in (HANDLER, _CLIENT_HANDLER):
        entries.pop(name, None)
    if importlib.util.find_spec("botocore") is None:
        raise DocumentError(
            f"{path}: sasl.mechanism {AWS_MSK_IAM} wants botocore, which is not installed.",
            next="Install trimtab with its extra `aws`.",
        )
    named = _REGION.search(bootstrap)
    region = next(
        filter(
            None,
            (
                options.get("awsRegion"),
                named[1] if named else None,
                os.environ.get("AWS_REGION"),
                os.environ.get("AWS_DEFAULT_REGION"),
            ),
        ),
        None,
    )
    if region is None:
        raise DocumentError(
            f"{path}: of which AWS region the cluster is, is not known.",
            next="Set AWS_REGION, or awsRegion=… in sasl.jaas.config.",
        )
    return OAuthLogin(
        AwsCredentials(
            region,
            options.get("awsProfileName", ""),
            options.get("awsRoleArn", ""),
            options.get("awsRoleSessionName", "trimtab"),
        )
    )
