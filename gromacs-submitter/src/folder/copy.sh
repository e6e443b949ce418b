# $1: the folder of the row, then names of files in it. Writes them to standard output as tar does.
command -v tar >/dev/null || { echo tar >&2; exit 3; }
cd -- "$1" || exit 5
shift
exec tar -cf - -- "$@"
