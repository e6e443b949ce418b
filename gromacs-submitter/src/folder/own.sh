# $1: the folder of the row, $2: the UUID of the row, which the inspection has written into the folder. Goes there, and leaves
# what follows as the arguments.
[ -d "$1" ] || exit 4
cd -- "$1" || exit 5
whose=
if [ -f .row ]; then IFS= read -r whose <.row; fi 2>/dev/null
[ "$whose" = "$2" ] || exit 9
shift 2
