# $1: a folder for files that are on their way, $2: bytes of the tar archive that comes. Nothing but numbers is the name of a file in it.
found=$(walk "$1/0" make) || exit 6
case $found in
    nothing | file) ;;
    *) printf '%s\n' "$found" >&2; exit 10 ;;
esac
# Not every connection passes on where the archive ends.
head -c "$2" | tar -xf - -C "./$1"
