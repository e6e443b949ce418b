# Makes the .tpr file of a row before it is read. $1: how many of the arguments that follow are those of the inspection; behind
# them: words for gmx grompp, which runs in the folder of the .tpr file, and behind -- settings NAME=VALUE in the place of those in
# its -f file.
count=$1
shift
tpr=$1 work=$2 made=
# A file in the folder of a row, or its newest part: nobody knows beforehand how often mdrun will be started.
newest() {
    case $1 in gromacs-[0-9]*/*.* | */gromacs-[0-9]*/*.*) ;; *) printf '%s\n' "$1" && return ;; esac
    name=${1##*/}
    part=$(cd -- "${1%/*}" 2>/dev/null && ls -t -- "$name" "${name%.*}".part[0-9]*."${name##*.}" 2>/dev/null | head -n 1)
    printf '%s\n' "${1%/*}/${part:-$name}"
}
# Writes the -f file with other settings: $work/changed.mdp. What they replace becomes a comment, so that lines keep their numbers.
# Names are compared as GROMACS does. awk reads settings as they are: neither a shell nor a pattern sees them.
change() {
    while [ "$1" != -- ]; do
        if [ "$1" = -f ]; then mdp=$(newest "$2"); fi
        shift
    done
    shift
    # GROMACS adds the ending where it is missing.
    if ! [ -f "$mdp" ] && [ -f "$mdp.mdp" ]; then mdp=$mdp.mdp; fi
    if ! [ -f "$mdp" ]; then
        # It says so if the file system is away.
        ls -d -- "$mdp" >/dev/null
        echo "there is no file $mdp in ${tpr%/*}" >&2
        return 4
    fi
    awk '
    function same(name) { gsub(/[-_ \t]/, "", name); return tolower(name) }
    BEGIN {
        for (i = 1; i < ARGC; i++) {
            at = index(ARGV[i], "=")
            name = substr(ARGV[i], 1, at - 1)
            other[same(name)]
            settings = settings name " = " substr(ARGV[i], at + 1) "\n"
            delete ARGV[i]
        }
    }
    {
        at = index($0, "=")
        print ((at && same(substr($0, 1, at - 1)) in other) ? "; " : "") $0
    }
    END { printf "%s", settings }' "$@" <"$mdp" >"$work/changed.mdp" || return 6
}
make() {
    shift "$count"
    cd -- "${tpr%/*}" || return 8
    changed='' before=''
    for word; do
        if [ "$word" = -- ]; then changed=$work/changed.mdp; fi
    done
    if [ "$changed" ]; then change "$@" || return; fi
    for word; do
        shift
        if [ "$word" = -- ]; then before=--; fi
        case $before in
        --) continue ;;
        -f) word=${changed:-$(newest "$word")} ;;
        *) word=$(newest "$word") ;;
        esac
        before=$word
        set -- "$@" "$word"
    done
    gmx -quiet -nobackup grompp "$@" -o "$work/new.tpr" -po "$work/mdout.mdp" </dev/null >&2 || return 8
}
# .made has the checksums of what the row makes, before it is there. An earlier version had mdout.mdp alone.
refuse_others() {
    if ! [ -e "$tpr" ] || grep -qxe "$(sum_of "$tpr")" -- "$work/.made" 2>/dev/null; then return; fi
    if ! [ -e "$work/.made" ] && [ -e "$work/mdout.mdp" ]; then return; fi
    rm -f -- "$work/new.tpr"
    echo "$tpr is there, and grompp would write over it; move it away, or let the row read it as it is" >&2
    exit 4
}
refuse_of_another "$work" "$3"
# What has begun goes on with the file as it was: grompp draws other velocities each time.
if ! [ -e "$work/state.cpt" ] && ! [ -e "$work/state_prev.cpt" ]; then
    if ! [ -d "${tpr%/*}" ]; then
        # It says so if the file system is away.
        ls -d -- "${tpr%/*}" >/dev/null
        echo "there is no folder ${tpr%/*} on the volume" >&2
        exit 4
    fi
    refuse_others
    make_folder "$work" "$3"
    if ! [ -e "$tpr" ]; then : >>"$work/.made" || exit 6; fi
    (make "$@") || exit
    sum_of "$work/new.tpr" >>"$work/.made" || exit 6
    # Whole or not at all, and not over what another row made meanwhile: a link takes no name that is taken.
    if [ -e "$tpr" ] || ! ln -- "$work/new.tpr" "$tpr" 2>/dev/null; then
        refuse_others
        mv -f -- "$work/new.tpr" "$tpr" || exit 6
    fi
    rm -f -- "$work/new.tpr"
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
