# Inspects each simulation of a row. $1: the script that inspects one, $2: the .tpr file, $3: the working directory, $4: UUID
# of the row, $5: steps in all if the row is extended, else -, $6: the checkpoint that it starts from, or -, $7: name of the copies
# that it has run so far, or -, $8: number of simulations, then their folders, then files that mdrun reads. File and checkpoint
# stand in the folder of each simulation.
script=$1 file=$2 work=$3 uuid=$4 steps=$5 checkpoint=$6 kept=$7 count=$8
shift 8
inspect() {
    name=$1
    shift $((count + 1))
    from=-
    if [ "$checkpoint" != - ]; then from=${checkpoint%/*}/$name/${checkpoint##*/}; fi
    TERMINATION_LOG=/dev/null RUN_INPUT_NAME=run-$sum.tpr \
        sh -c "$script" inspect "${file%/*}/$name/${file##*/}" "$work/$name" "$uuid" "$steps" "$from" "$kept" "$@"
}
value_of() { printf '%s\n' "$2" | sed -n "s/^$1=//p"; }
# One checksum for all files, after which the copies are named.
checksum() { cksum | awk '{ print $1 "-" $2 }'; }
sums='' number=0
for name; do
    number=$((number + 1))
    if [ "$number" -gt "$count" ]; then break; fi
    source=${file%/*}/$name/${file##*/}
    if ! [ -f "$source" ]; then source=$work/$name/$kept; fi
    if [ -f "$source" ]; then
        make_folder "$work" "$uuid"
        sums="$sums$(checksum <"$source") "
    fi
done
sum=$(printf '%s' "$sums" | checksum)
first='' answer='' sums='' number=0
for name; do
    number=$((number + 1))
    if [ "$number" -gt "$count" ]; then break; fi
    found=$(inspect "$name" "$@") || exit $?
    sums="$sums$(value_of tpr-checksum "$found") "
    if [ -z "$first" ]; then
        first=$name answer=$found
        continue
    fi
    for key in atoms nsteps init-step dt integrator; do
        mine=$(value_of "$key" "$found") its=$(value_of "$key" "$answer")
        if [ "$mine" != "$its" ]; then
            printf '%s has %s %s, and %s has %s: the simulations of a row must agree in it; add %s as a row of its own\n' \
                "$name" "$key" "$mine" "$first" "$its" "$name" >&2
            exit 10
        fi
    done
done
if [ "$(printf '%s' "$sums" | checksum)" != "$sum" ]; then
    echo "a .tpr file changed while the files were read; retry when all are complete" >&2
    exit 4
fi
answer="$(printf '%s\n' "$answer" | grep -v '^tpr-checksum=')
tpr-checksum=$sum"
printf '%s\n' "$answer"
printf '%s\n' "$answer" >"${TERMINATION_LOG:-/dev/termination-log}"
