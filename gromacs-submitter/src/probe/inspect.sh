# $1: the .tpr file, $2: the working directory of the simulation, $3: UUID of the row, or nothing, $4: steps in all if the
# simulation is extended, else -, $5: the checkpoint that it starts from, or -, $6: name of the copy in the working directory
# that it has run so far, or -, further: files that mdrun reads. Run by sh -c; no user's string is ever part of it.
source=$1
# A row whose file is gone by now still has the copy that it has run so far.
if ! [ -f "$1" ] && [ "${6:--}" != - ] && [ -f "$2/$6" ]; then source=$2/$6; fi
if ! [ -f "$source" ]; then
    # It says so if the file system is away.
    ls -d -- "$1" >/dev/null
    echo "there is no file $1 on the volume" >&2
    exit 4
fi
make_folder "$2" "${3-}"
# What the simulation has written itself since it started goes before the checkpoint that it started from.
if [ "${5:--}" != - ] && ! [ -e "$2/state.cpt" ] && ! [ -e "$2/state_prev.cpt" ]; then
    if ! [ -f "$5" ]; then
        echo "there is no checkpoint $5 on the volume" >&2
        exit 4
    fi
    cp -- "$5" "$2/new.cpt" || exit 6
    # Once it has the name, it is not copied again.
    if ! is_whole "$2/new.cpt"; then
        rm -f -- "$2/new.cpt"
        printf '\nFatal error:\nGROMACS cannot read checkpoint %s; put one there that the image can read, and retry\n\n' "$5" >&2
        exit 4
    fi
    mv -f -- "$2/new.cpt" "$2/state.cpt" || exit 6
fi
number=0
for further; do
    number=$((number + 1))
    if [ "$number" -gt 6 ] && ! [ -f "$further" ]; then
        echo "there is no file $further on the volume" >&2
        exit 4
    fi
done
# mdrun reads its file at each start, and the user's may be another one by then: so it runs a copy in the folder of the row,
# which is also what is read here. No link: `cp` writes into the file that it finds. The name says of which file it is a copy:
# the one that was run so far stays until the row has taken another one. A calibration is nobody's, and its file its own.
file=$source run=
sum=$(sum_of "$source")
if [ -n "${3-}" ]; then
    run=${RUN_INPUT_NAME:-run-$sum.tpr}
    file=$2/$run
    if ! [ -f "$file" ] || [ "$(sum_of "$file")" != "$sum" ]; then
        # At no cost where the file system can share blocks. The copy has the modes of the user's file, whose owner is another.
        rm -f -- "$2/new.tpr"
        if ! { cp --reflink=auto -- "$source" "$2/new.tpr" 2>/dev/null || cp -- "$source" "$2/new.tpr"; } \
            || { ! chmod u+rw -- "$2/new.tpr" 2>/dev/null && ! [ -r "$2/new.tpr" ]; }; then
            rm -f -- "$2/new.tpr"
            exit 6
        fi
        if [ "$(sum_of "$2/new.tpr")" != "$sum" ]; then
            rm -f -- "$2/new.tpr"
            echo "$source changed while it was copied; retry when it is complete" >&2
            exit 4
        fi
        mv -f -- "$2/new.tpr" "$file" || exit 6
    fi
    for old in "$2"/run-*-*.tpr; do
        case $old in "$file" | "$2/${6:--}") ;; *) rm -f -- "$old" ;; esac
    done
fi
# A simulation that is extended goes on from its checkpoint, with a file that has more steps. It is made each time, whole or not
# at all, so that it can be made again.
if [ "${4:--}" != - ]; then
    if ! [ -f "$2/state.cpt" ] && ! [ -f "$2/state_prev.cpt" ]; then
        echo "there is no checkpoint $2/state.cpt on the volume to go on from; put it back, and retry" >&2
        exit 4
    fi
    gmx -quiet -nobackup convert-tpr -s "$file" -nsteps "$4" -o "$2/new.tpr" </dev/null >&2 || exit 8
    file=$2/extended.tpr
    mv -f -- "$2/new.tpr" "$file" || exit 6
fi
# mdrun appends only to a file that it can lock. A file that nobody else has can be locked wherever locks work.
locks=unknown
if command -v flock >/dev/null 2>&1; then
    touch -- "$2/.lock-$$" || exit 6
    if flock -n "$2/.lock-$$" true 2>/dev/null; then locks=yes; else locks=no; fi
    rm -f -- "$2/.lock-$$"
fi
# The exit code is awk's.
found=$(gmx -quiet dump -s "$file" | what_a_dump_says) || exit 7
build=$(gmx --version 2>/dev/null | what_a_version_says)
# The checksum is of the file as the user made it: what convert-tpr makes of it differs, though nothing in it does.
# A script is process 1 in the place of mdrun.
launcher=
if [ "$(dd if="$(command -v "${GROMACS_PROGRAM:-gmx}")" bs=2 count=1 2>/dev/null | tr -d '\000')" = '#!' ]; then launcher="launcher=script
"; fi
if [ -n "${made-}" ]; then found="$found
made=$made"; fi
if [ -n "$run" ]; then found="$found
run-input=$run"; fi
found="$found
$build
${launcher}locks=$locks
tpr-checksum=$sum"
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
