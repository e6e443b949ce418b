# Runs the simulations of a row side by side, each as a mdrun of its own in its own folder, and says in mdrun's words how
# far the least advanced one is: that is how far the row is. Run by sh -c; no user's string is ever part of it.
#
# $1: folder of the row, $2: folder of the run inputs, $3: name of each run input, $4: last step, $5: seconds between two
# reports, $6: GPUs of the pod, $7: GPUs of each simulation, $8: number of simulations, then their folders, then the command.
#
# shellcheck disable=SC2154
base=$1 input=$2 file=$3 end=$4 every=$5 gpus=$6 each=$7 count=$8
shift 8
look=2

set_state() { eval "state_$1=$2"; }

# Where it started; nothing until mdrun says so.
first_step() {
    head -c 65536 -- "$folder/mdrun.out" 2>/dev/null | tr '\r' '\n' | awk '
/^starting mdrun/ { started = 1; next }
started && $2 == "steps," {
    print match($0, /continuing from step [0-9]+/) ? substr($0, RSTART + 21, RLENGTH - 21) : 0
    exit
}'
}

# The last line of its output that begins with the word.
line_of() { tr '\r' '\n' <"$folder/mdrun.out" | grep "^ *$1" | tail -n 1; }

# Says where the least advanced one started once all have, and how far it is.
report() {
    least='' line=''
    number=0
    while [ "$number" -lt "$count" ]; do
        select_one $((number + 1)) "$@"
        if [ "$state" = complete ]; then continue; fi
        if [ -z "$announced" ]; then found=$(first_step); else found=$(progress); fi
        step=${found#step }
        step=${step%%[!0-9]*}
        if [ -z "$step" ]; then return; fi
        if [ -z "$least" ] || [ "$step" -lt "$least" ]; then least=$step line=$found; fi
    done
    if [ -z "$least" ]; then return; fi
    if [ -z "$announced" ]; then
        announced=yes
        echo "starting mdrun '$count simulations'"
        if [ "$least" -gt 0 ]; then from="(continuing from step $least, the least advanced)."; else from=; fi
        echo "$end steps, $count simulations $from"
    elif [ "$line" != "$told" ]; then
        told=$line
        printf '%s\n' "$line"
    fi
}

# One that has ended already does not mind.
stop() { for one in $pids; do kill -TERM "$one" 2>/dev/null; done; }

# Before anything is started: a checkpoint that is missing or older than it was would be found out only when mdrun has
# written over what it computed.
again=0
number=0
if [ "$$" = 1 ]; then trap 'exit 143' TERM; fi
while [ "$number" -lt "$count" ]; do
    number=$((number + 1))
    eval "state_$number=runs"
    select_one "$number" "$@"
    if [ "$(cat -- "$folder/.done" 2>/dev/null)" = "$end" ]; then
        set_state "$number" complete
        continue
    fi
    found=$(find_checkpoint "$folder" "$name: ")
    ended=$?
    if [ -n "$found" ]; then again=$((again + 1)); fi
    # All of an ensemble may have lost theirs, and the beginning of the log is read for where mdrun started.
    if [ -n "$found" ] && { [ "$again" -le 10 ] || [ "$ended" -ne 0 ]; }; then printf '%s\n\n' "$found"; fi
    if [ "$ended" -eq 0 ]; then
        saved=$(logged_steps "$folder")
        saved=${saved% *}
        if [ "$saved" -eq 0 ]; then continue; fi
        # mdrun writes over its log from where the checkpoint was, and leaves what is behind.
        gone=$(cat -- "$folder/.restored" 2>/dev/null)
        if [ "$saved" -le "${gone:-0}" ]; then continue; fi
        step=$(step_of "$folder/state.cpt" 2>/dev/null)
        if [ "${step:-0}" -lt "$saved" ]; then
            printf '\nFatal error:\n%s: state.cpt is %s, but a checkpoint had reached step %s\n\n' "$name" \
                "${step:+at step }${step:-damaged}" "$saved"
            ended=12
        fi
    fi
    if [ "$ended" -ne 0 ]; then
        printf 'simulation %s ended with exit code %s\n' "$name" "$ended"
        exit "$ended"
    fi
done

rm -f -- "$base/.oldest-checkpoint"
: >"$base/.started" || exit 6
announced='' told='' failed='' code=0 pids=''
number=0
while [ "$number" -lt "$count" ]; do
    select_one $((number + 1)) "$@"
    if [ "$state" = complete ]; then continue; fi
    on=
    if [ "$gpus" -gt 1 ]; then
        # Each on GPUs of its own, or several on one.
        on=$(awk -v number="$((number - 1))" -v gpus="$gpus" -v each="$each" -v count="$count" 'BEGIN {
            first = gpus >= each * count ? number * each : int(number * gpus / count)
            for (i = 0; i < (gpus >= each * count ? each : 1); i++) list = list (i && gpus > 10 ? "," : "") first + i
            print list
        }')
    fi
    (
        shift "$count"
        cd -- "$folder" || exit 5
        if [ -n "$on" ]; then set -- "$@" -gpu_id "$on"; fi
        exec "$@" -s "$input/$name/$file" >mdrun.out 2>&1 </dev/null
    ) &
    eval "pid_$number=\$!"
    pids="$pids $!"
done

# As process 1 a shell would ignore the signal. Otherwise the supervisor brings it to each mdrun.
if [ "$$" = 1 ]; then trap stop TERM; fi
waited=$every running=yes
while [ -n "$running" ]; do
    sleep "$look" &
    wait "$!"
    waited=$((waited + look)) running=
    # Where it started is said even of what has ended by now.
    if [ -z "$announced" ]; then report "$@"; fi
    number=0
    while [ "$number" -lt "$count" ]; do
        select_one $((number + 1)) "$@"
        if [ "$state" != runs ]; then continue; fi
        if kill -0 "$pid" 2>/dev/null; then
            running=yes
            continue
        fi
        wait "$pid"
        ended=$?
        if [ "$ended" -eq 0 ] && grep -q 'Writing final coordinates' "$folder/mdrun.out"; then
            printf '%s\n' "$end" >"$folder/.done"
            set_state "$number" complete
            printf 'simulation %s is complete\n' "$name"
        elif [ "$ended" -eq 0 ]; then
            set_state "$number" short
        else
            set_state "$number" stopped
            # 143: before mdrun could take the signal in.
            if [ "$ended" -eq 143 ] || grep -q 'Received the [A-Z]* signal' "$folder/mdrun.out"; then
                if [ "$code" -eq 0 ]; then code=$ended; fi
            elif [ -z "$failed" ]; then
                failed=$number code=$ended
                stop
            fi
        fi
    done
    mark "$@"
    if [ -n "$announced" ] && { [ -z "$running" ] || [ "$waited" -ge "$every" ]; }; then
        report "$@"
        waited=0
    fi
done

if [ -n "$failed" ]; then
    select_one "$failed" "$@"
    tail -c 8192 -- "$folder/mdrun.out"
    printf '\nsimulation %s ended with exit code %s\n' "$name" "$code"
    exit "$code"
fi
complete=yes slowest='' time='' total=0
number=0
while [ "$number" -lt "$count" ]; do
    select_one $((number + 1)) "$@"
    if [ "$state" != complete ]; then complete=; fi
    if [ -z "$pid" ]; then continue; fi
    speed=$(line_of Performance: 2>/dev/null | awk '{ print $2 }')
    if [ -z "$speed" ]; then continue; fi
    printf '%s: %s ns/day\n' "$name" "$speed"
    total=$(awk -v total="$total" -v speed="$speed" 'BEGIN { print total + speed }')
    if [ -z "$slowest" ] || awk -v a="$speed" -v b="$slowest" 'BEGIN { exit !(a + 0 < b + 0) }'; then
        slowest=$speed time=$(line_of Time:)
    fi
done
if [ -n "$complete" ]; then
    echo "Writing final coordinates of $count simulations."
    echo "step $end"
fi
if [ -n "$slowest" ]; then
    printf 'together: %s ns/day; the slowest alone:\n%s\nPerformance: %s\n' "$total" "$time" "$slowest"
fi
exit "$code"
