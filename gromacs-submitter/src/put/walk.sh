# Prints what has the path $1, seen from the working directory: `nothing`, `file`, `folder`, `link`, `row` (the folder of a row is no place
# for other files), or `other`. No link is followed. With `make` in $2 the folders of the path are made.
walk() {
    rest=$1
    here=.
    while :; do
        here=$here/${rest%%/*}
        case $rest in
            */*) rest=${rest#*/} ;;
            *) break ;;
        esac
        if [ -L "$here" ]; then
            echo link
            return
        fi
        if [ ! -e "$here" ]; then
            if [ "$2" != make ]; then
                echo nothing
                return
            fi
            # Another command may make it at the same time.
            mkdir -- "$here" || [ -d "$here" ] || exit 6
        fi
        if [ ! -d "$here" ]; then
            echo other
            return
        fi
        if [ -e "$here/.row" ] || [ -L "$here/.row" ]; then
            echo row
            return
        fi
    done
    if [ -L "$here" ]; then
        echo link
    elif [ ! -e "$here" ]; then
        echo nothing
    elif [ -f "$here" ]; then
        echo file
    elif [ -d "$here" ]; then
        echo folder
    else
        echo other
    fi
}
# $1: where the volume is mounted. What follows are the arguments.
for tool in df head mkdir mv sha256sum stat tar; do
    command -v "$tool" >/dev/null || { echo "$tool" >&2; exit 3; }
done
cd -- "$1" || exit 5
shift
