# The arguments are pairs of a size and a name of a file in the folder of the row. Prints the SHA-256 of so many bytes from the beginning of
# each file: what a simulation appends meanwhile does not matter. Of a file that is gone it is that of nothing.
for tool in head sha256sum; do
    command -v "$tool" >/dev/null || { echo "$tool" >&2; exit 3; }
done
while [ $# -gt 1 ]; do
    head -c "$1" -- "$2" 2>/dev/null | sha256sum || exit 6
    shift 2
done
