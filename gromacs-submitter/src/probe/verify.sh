# $1: the checkpoint. Prints its step; the dump ends before the coordinates.
if ! [ -f "$1" ]; then
    echo "there is no checkpoint $1 on the volume" >&2
    exit 4
fi
found=$(gmx -quiet dump -cp "$1" | awk '$1 == "step" && $2 == "=" { print "verification=1"; print "step=" $3; found = 1; exit } END { exit !found }') || exit 7
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
