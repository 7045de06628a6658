"""Looking at the cluster and carrying steps out, each intent journalled before it is done."""
