# Runs the simulations of a row in one mdrun of a build for library MPI, in which they can exchange. Says in mdrun's words how far
# they are. Run by sh -c; no user's string is ever part of it.
#
# $1: folder of the row, $2: last step, $3: seconds between two reports, $4: steps between two exchanges, 0 if there are none,
# $5: number of simulations, then their folders (. is that of the row), then the launcher with its arguments.
base=$1 end=$2 every=$3 exchange=$4 count=$5
shift 5
look=2

# What stands in front of what is said of a simulation.
of_one() { if [ "$count" -gt 1 ]; then printf '%s: ' "$name"; fi; }

# Where a checkpoint is: the part of the run and the first exchange behind it, then the step. mdrun starts simulations together
# only if all are in the same part, and before the same exchange. Their steps may differ: after an exchange those that took part
# write their checkpoints earlier than the others.
place_of() {
    if ! gmx -quiet dump -cp "$1" </dev/null 2>/dev/null | awk -v exchange="$exchange" '
$1 == "simulation" && $2 == "part" { part = $NF }
$1 == "step" && $2 == "=" && $3 ~ /^[0-9]+$/ {
    printf "%d.%d %d\n", part, (exchange ? int(($3 + exchange - 1) / exchange) : 0), $3
    found = 1
    exit
}
END { exit !found }' && is_whole "$1"; then
        # SIGTERM came while it was read.
        exit 143
    fi
}

give_up() {
    printf '\nFatal error:\n%s%s\n\n' "$(of_one)" "$1"
    exit 12
}

# mdrun renames the checkpoints of all simulations one after the other. If the pod ends in between, some are ahead: these go on
# from the checkpoint before, as the others do. What is behind it is computed again, so nothing is lost that was kept.
go_back() {
    before=$(place_of "$folder/state_prev.cpt") || exit
    if [ "${before% *}" != "$least" ]; then
        give_up "no checkpoint belongs to those of the other simulations: state.cpt is at step ${place#* }, state_prev.cpt at step \
${before#* }, and the least advanced simulation is at step ${at#* }"
    fi
    cp -- "$folder/state_prev.cpt" "$folder/new.cpt" && mv -f -- "$folder/state.cpt" "$folder/state_ahead.cpt" \
        && mv -f -- "$folder/new.cpt" "$folder/state.cpt" || exit 6
    printf '%sgoes on from state_prev.cpt at step %s: state.cpt was ahead of other simulations, and is kept as state_ahead.cpt; %s steps are computed again\n' \
        "$(of_one)" "${before#* }" "$((${place#* } - ${before#* }))"
    place=$before
}

if [ "$$" = 1 ]; then trap 'exit 143' TERM; fi
places='' absent=''
number=0
while [ "$number" -lt "$count" ]; do
    select_one $((number + 1)) "$@"
    find_checkpoint "$folder" "$(of_one)" || exit
    place=$(place_of "$folder/state.cpt") || exit
    if [ -n "$place" ]; then
        places="$places$place
"
    elif [ -e "$folder/state.cpt" ]; then
        # What is wrong with it, mdrun says.
        absent=unknown
    else
        absent=${absent:-yes}
    fi
    eval "place_$number=\$place"
done
start=0
if [ -n "$places" ] && [ -z "$absent" ]; then
    at=$(printf '%s' "$places" | sort -t . -k 1,1n -k 2,2n | head -n 1)
    least=${at% *} start=
    number=0
    while [ "$number" -lt "$count" ]; do
        select_one $((number + 1)) "$@"
        eval "place=\$place_$number"
        if [ "${place% *}" != "$least" ]; then go_back; fi
        if [ -z "$start" ] || [ "${place#* }" -lt "$start" ]; then start=${place#* }; fi
    done
elif [ "$absent" = yes ]; then
    # It was the first checkpoint of all that some have not written: all begin again.
    number=0
    while [ "$number" -lt "$count" ]; do
        select_one $((number + 1)) "$@"
        if [ -e "$folder/state.cpt" ] && ! [ -e "$folder/state_prev.cpt" ]; then
            mv -f -- "$folder/state.cpt" "$folder/state_ahead.cpt" || exit 6
        fi
    done
fi

rm -f -- "$base/.oldest-checkpoint"
: >"$base/.started" || exit 6
# The files are of this pod alone: each rank makes one with its number.
RANKS=$(mktemp -d) || exit 6
export RANKS
cd -- "$base" || exit 5
(
    shift "$count"
    exec "$@" >mdrun.out 2>&1 </dev/null
) &
launcher=$!

# As process 1 a shell would ignore the signal, and the launcher would give the ranks a second. Otherwise the supervisor brings it
# to each rank.
stop() { for rank in "$RANKS"/*; do kill -TERM "${rank##*/}" 2>/dev/null; done; }
if [ "$$" = 1 ]; then trap stop TERM; fi

announced='' told='' waited=$every running=yes
number_of() { if [ "$count" -eq 1 ]; then echo "1 simulation"; else echo "$count simulations"; fi; }
while [ -n "$running" ]; do
    sleep "$look" &
    wait "$!"
    waited=$((waited + look))
    if ! kill -0 "$launcher" 2>/dev/null; then running=; fi
    mark "$@"
    if [ -z "$announced" ] && grep -q '^starting mdrun' "$base/mdrun.out"; then
        announced=yes
        echo "starting mdrun '$(number_of) with library MPI'"
        if [ "$start" -gt 0 ]; then from="(continuing from step $start, the least advanced)."; else from=; fi
        echo "$end steps, $(number_of) $from"
    fi
    if [ -n "$announced" ] && { [ -z "$running" ] || [ "$waited" -ge "$every" ]; }; then
        folder=$base
        line=$(progress)
        if [ "$line" != "$told" ]; then
            told=$line
            printf '%s\n' "$line"
        fi
        waited=0
    fi
done
wait "$launcher"
code=$?
if [ "$code" -ne 0 ]; then
    if ! grep -q 'Received the [A-Z]* signal' "$base/mdrun.out"; then tail -c 8192 -- "$base/mdrun.out"; fi
    exit "$code"
fi

# mdrun writes the last coordinates at the last step alone.
complete=0 incomplete='' slowest='' time=''
number=0
while [ "$number" -lt "$count" ]; do
    select_one $((number + 1)) "$@"
    last=$(cd -- "$folder" && ls -t -- confout*.gro 2>/dev/null | head -n 1)
    # shellcheck disable=SC3013
    if [ -n "$last" ] && [ "$folder/$last" -nt "$base/.started" ]; then
        complete=$((complete + 1))
    else
        incomplete=$name
    fi
    ended=$(speed_in "$folder")
    speed=$(printf '%s\n' "$ended" | sed -n 's/^performance=//p')
    if [ -z "$speed" ]; then continue; fi
    if [ -z "$slowest" ] || awk -v a="$speed" -v b="$slowest" 'BEGIN { exit !(a + 0 < b + 0) }'; then
        slowest=$speed time=$(printf '%s\n' "$ended" | sed -n 's/^time=//p')
    fi
done
if [ "$complete" -eq "$count" ]; then
    echo "Writing final coordinates of $(number_of)."
    echo "step $end"
elif [ "$complete" -gt 0 ]; then
    name=$incomplete
    give_up "mdrun ended before step $end without an error, and other simulations are complete"
fi
if [ -n "$slowest" ]; then printf 'Time: %s %s\nPerformance: %s\n' "$time" "$time" "$slowest"; fi
