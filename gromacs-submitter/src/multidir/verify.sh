# Reads the checkpoint of each simulation of a row. $1: the script that reads one, $2: the folder of the row, then the folders
# of the simulations in it. The least advanced one tells how far the row is, the slowest one how fast.
script=$1 base=$2
shift 2
all=
for name; do
    found=$(TERMINATION_LOG=/dev/null sh -c "$script" verify "$base/$name/state.cpt") || exit $?
    all="$all
$found"
done
found=$(printf '%s\n' "$all" | awk -F= '
$1 == "step" && (least == "" || $2 + 0 < least + 0) { least = $2 }
$1 == "backup" { backup = 1 }
$1 == "performance" { performance = $2 }
$1 == "time" && (slowest == "" || performance + 0 < slowest + 0) { slowest = performance; time = $2 }
END {
    if (least == "") exit 7
    print "verification=1"
    print "step=" least
    if (backup) print "backup=yes"
    if (slowest != "") { print "performance=" slowest; print "time=" time }
}') || exit 7
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
