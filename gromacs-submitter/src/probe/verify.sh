# $1: the checkpoint. Prints its step; the dump ends before the coordinates. Prints, too, how fast mdrun was, as the newest
# log beside it ends. Without appending each start writes a log of its own.
before=${1%.cpt}_prev.cpt
if ! [ -f "$1" ] && ! [ -f "$before" ]; then
    # It says so if the file system is away.
    ls -d -- "$1" >/dev/null
    echo "there is no checkpoint $1 on the volume; put it back, and retry" >&2
    exit 4
fi
backup=
if ! step=$(step_of "$1"); then
    # The next start of mdrun goes on from there.
    if ! [ -f "$before" ] || ! step=$(step_of "$before" 2>/dev/null); then exit 7; fi
    backup="
backup=yes"
fi
found="verification=1
step=$step$backup"
ended=$(speed_in "${1%/*}")
if [ -n "$ended" ]; then found="$found
$ended"; fi
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
