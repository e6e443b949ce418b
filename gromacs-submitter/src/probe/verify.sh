# $1: the checkpoint. Prints its step; the dump ends before the coordinates. Prints, too, how the newest log beside it ends:
# the speed, and mdrun's table of where the time went. Without appending each start writes a log of its own.
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
newest=$(cd -- "${1%/*}" && ls -t -- md.log md.part*.log 2>/dev/null | head -n 1)
if [ -n "$newest" ]; then
    # A log goes on where the one of the last start ended: the last table counts.
    ended=$(tail -n 400 -- "${1%/*}/$newest" | awk '
/M E G A - F L O P S/ { pairs = 0; table = ""; speed = ""; time = ""; next }
/R E A L   C Y C L E/ { rows = 1; table = ""; next }
/Core t \(s\)/ { rows = 0; next }
$1 == "NxN" { pairs += $(NF - 2); next }
$1 == "Time:" { time = $3; next }
$1 == "Performance:" { speed = $2; next }
rows && NF > 3 && $NF ~ /^[0-9.]+$/ && $(NF - 2) ~ /^[0-9.]+$/ {
    name = $0
    sub(/^ +/, "", name)
    sub(/ *[*]?  +[0-9].*$/, "", name)
    table = table name ":" $(NF - 2) ";"
}
END {
    if (speed == "" || time == "") exit
    print "performance=" speed
    print "time=" time
    if (table != "") print "cycles=" table
    if (pairs > 0) printf "pairs=%.3f\n", pairs
}')
    if [ -n "$ended" ]; then found="$found
$ended"; fi
fi
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
