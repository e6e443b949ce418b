# Makes the .tpr file of a row before it is read. $1: how many of the arguments that follow are those of the inspection; behind
# them: words for gmx grompp, which runs in the folder of the .tpr file.
count=$1
shift
tpr=$1 work=$2 made=
make() {
    shift "$count"
    cd -- "${tpr%/*}" && gmx -quiet -nobackup grompp "$@" -o "$work/new.tpr" -po "$work/mdout.mdp" </dev/null >&2
}
# What has begun goes on with the file as it was: grompp draws other velocities each time.
if ! [ -e "$work/state.cpt" ] && ! [ -e "$work/state_prev.cpt" ]; then
    if ! [ -d "${tpr%/*}" ]; then
        # It says so if the file system is away.
        ls -d -- "${tpr%/*}" >/dev/null
        echo "there is no folder ${tpr%/*} on the volume" >&2
        exit 4
    fi
    # grompp writes mdout.mdp before anything else, so what lies beside it is the row's own.
    if [ -e "$tpr" ] && ! [ -e "$work/mdout.mdp" ]; then
        echo "$tpr is there, and grompp would write over it; move it away, or let the row read it as it is" >&2
        exit 4
    fi
    make_folder "$work" "$3"
    (make "$@") || exit 8
    # Whole or not at all: it may be interrupted at any instant, and is then made again.
    mv -f -- "$work/new.tpr" "$tpr" || exit 6
    # The inspection, which follows, says so.
    # shellcheck disable=SC2034
    made=yes
fi
# The words of grompp go, the arguments of the inspection stay.
for argument; do
    shift
    if [ "$count" -gt 0 ]; then set -- "$@" "$argument"; fi
    count=$((count - 1))
done
