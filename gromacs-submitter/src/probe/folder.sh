# What a row with library MPI starts must be there.
if [ -n "${GROMACS_PROGRAM-}" ]; then
    for program in "$GROMACS_PROGRAM" mpirun; do
        if ! command -v "$program" >/dev/null 2>&1; then
            echo "the image has no $program, which engine mpi needs; name one that has it (gromacs-submitter edit --image), and retry" >&2
            exit 4
        fi
    done
fi
# Checksum and size of the file $1.
sum_of() { cksum <"$1" | awk '{ print $1 "-" $2 }'; }
# Ends the script if another row than the one with the UUID $2 has made the folder $1. It has the number of this one: in another
# database, or in this one before a backup was restored. To go on from its checkpoint would take its end for this row's.
refuse_of_another() {
    if [ -f "$1/.row" ] && [ "$(cat "$1/.row")" != "$2" ]; then
        echo "$1 is in the way: another row has made it (its file .row has another UUID); move it away or remove it, and retry" >&2
        exit 9
    fi
}
# Makes the folder of a simulation, $1, and marks it as that of the row with the UUID $2, unless that is nothing.
make_folder() {
    if ! mkdir -p -- "$1"; then
        if [ -d "${1%/*}" ] && ! [ -w "${1%/*}" ]; then echo "user $(id -u) cannot write to ${1%/*}" >&2; fi
        exit 5
    fi
    if ! [ -w "$1" ]; then
        echo "user $(id -u) cannot write to $1" >&2
        exit 6
    fi
    if [ -z "$2" ]; then return; fi
    refuse_of_another "$1" "$2"
    if [ -f "$1/.row" ]; then return; fi
    if [ -e "$1/state.cpt" ] || [ -e "$1/state_prev.cpt" ]; then
        echo "$1 holds a checkpoint that is not this row's; move state.cpt and state_prev.cpt away, and retry" >&2
        exit 9
    else
        printf '%s\n' "$2" >"$1/.row" || exit 6
    fi
}
