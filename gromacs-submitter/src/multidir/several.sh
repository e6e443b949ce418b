# What the scripts of several simulations have in common. $base: folder of the row, $count: how many there are; their folders are
# the first positional parameters.
#
# shellcheck disable=SC2154
name='' state=''

# Nothing but numbers is evaluated.
select_one() {
    number=$1
    shift
    eval "name=\${$number} pid=\${pid_$number-} state=\$state_$number"
    folder=$base/$name
}

# The last line of progress: the one that may not be whole yet is left out.
progress() {
    tail -c 4096 -- "$folder/mdrun.out" 2>/dev/null | tr '\r' '\n' | sed '$d' | awk '
match($0, /step [0-9]+/) {
    rest = substr($0, RSTART + RLENGTH)
    if (rest == "" || rest ~ /^(, remaining|, will|vol|imb| )/) found = substr($0, RSTART)
}
END { sub(/ +$/, "", found); print found }'
}

# Every shell of an image knows -nt, though POSIX does not.
# shellcheck disable=SC3013
#
# The time of the oldest checkpoint of those that run, once each has written one: what the row would lose counts from
# there. Whatever is complete loses nothing.
mark() {
    oldest=
    number=0
    while [ "$number" -lt "$count" ]; do
        select_one $((number + 1)) "$@"
        if [ "$state" = complete ]; then continue; fi
        if ! [ "$folder/state.cpt" -nt "$base/.started" ]; then return; fi
        if [ -z "$oldest" ] || [ "$oldest" -nt "$folder/state.cpt" ]; then oldest=$folder/state.cpt; fi
    done
    if [ -z "$oldest" ]; then return; fi
    if ! [ -e "$base/.oldest-checkpoint" ] || [ "$oldest" -nt "$base/.oldest-checkpoint" ]; then
        : >"$base/.new-checkpoint" && touch -r "$oldest" -- "$base/.new-checkpoint" \
            && mv -f -- "$base/.new-checkpoint" "$base/.oldest-checkpoint"
    fi
}
