# Checksum and size of the file $1.
sum_of() { cksum <"$1" | awk '{ print $1 "-" $2 }'; }
# Makes the folder of a simulation, $1, and marks it as that of $2, if that matters.
make_folder() {
    if ! mkdir -p -- "$1"; then
        if [ -d "${1%/*}" ] && ! [ -w "${1%/*}" ]; then echo "user $(id -u) cannot write to ${1%/*}" >&2; fi
        exit 5
    fi
    if ! [ -w "$1" ]; then
        echo "user $(id -u) cannot write to $1" >&2
        exit 6
    fi
    # A checkpoint that another queue's row left here, one of an earlier database for example, is not this row's to go on from:
    # mdrun would take the other simulation's end for its own.
    if [ -z "$2" ]; then return; fi
    if [ -f "$1/.row" ]; then
        if [ "$(cat "$1/.row")" != "$2" ]; then
            echo "$1 holds a simulation of another queue; move it away or remove it" >&2
            exit 9
        fi
    elif [ -e "$1/state.cpt" ] || [ -e "$1/state_prev.cpt" ]; then
        echo "$1 holds a checkpoint that is not this row's; move state.cpt and state_prev.cpt away, and retry" >&2
        exit 9
    else
        printf '%s\n' "$2" >"$1/.row" || exit 6
    fi
}
