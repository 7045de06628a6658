# Refuses in one sentence where this bundle cannot run: it holds libraries for one Python and glibc.
trimtab_refuse() {
  echo "trimtab: $1" >&2
  exit 1
}
trimtab_is_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (@MAJOR@, @MINOR@))' 2>/dev/null
}
if [ "$(uname -s) $(uname -m)" != "@SYSTEM@" ]; then
  trimtab_refuse "this bundle is for @SYSTEM@, and this machine is $(uname -s) $(uname -m); install the wheel instead."
fi
if [ -n "@GLIBC@" ]; then
  trimtab_glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
  case "$trimtab_glibc" in
    "glibc 2."*) ;;
    *) trimtab_refuse "this bundle needs glibc 2.@GLIBC@ or newer, and this machine has none; install the wheel instead." ;;
  esac
  trimtab_minor=${trimtab_glibc#glibc 2.}
  if [ "${trimtab_minor%%.*}" -lt "@GLIBC@" ]; then
    trimtab_refuse "this bundle needs glibc 2.@GLIBC@ or newer, and this machine has ${trimtab_glibc#glibc }; use it on a newer system."
  fi
fi
if ! command -v python@MAJOR@.@MINOR@ >/dev/null && ! trimtab_is_python python3; then
  trimtab_refuse "this bundle needs Python @MAJOR@.@MINOR@, and python@MAJOR@.@MINOR@ is not on the PATH; install it, or use the bundle of another Python."
fi
