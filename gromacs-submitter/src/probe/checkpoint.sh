# What mdrun finds of a simulation's checkpoint. mdrun keeps the one before as state_prev.cpt, for when the newest one cannot
# be read: a node that lost power may leave it empty or cut off.

# A build for library MPI may have another name, which the row gives.
if [ -n "${GROMACS_PROGRAM-}" ]; then gmx() { "$GROMACS_PROGRAM" "$@"; }; fi

# True if GROMACS can read the checkpoint to its end. The coordinates are read and not printed, which takes no time.
is_whole() {
    if ! [ -f "$1" ]; then return 1; fi
    gmx -quiet check -f "$1" >/dev/null 2>&1 </dev/null
    case $? in
    0) ;;
    # SIGTERM, or SIGKILL, came while it read: that says nothing of the file.
    137 | 143) exit 143 ;;
    *) return 1 ;;
    esac
}

# The step of a checkpoint; of one that is cut off, too, if its beginning is there.
step_of() {
    gmx -quiet dump -cp "$1" </dev/null | awk '
$1 == "step" && $2 == "=" && $3 ~ /^[0-9]+$/ { print $3; found = 1; exit }
END { exit !found }'
}

# Two steps by the logs in the folder $1: the last one of which a checkpoint was certainly written, and the last one that mdrun
# names. It names one before it writes it, so what is named last counts once mdrun has gone on behind it.
logged_steps() {
    cat -- "$1/md.log" "$1"/md.part*.log 2>/dev/null | awk '
$1 == "Writing" && $2 == "checkpoint," && $3 == "step" {
    step = $4 + 0
    certain = step < last ? 0 : last
    last = step
}
/^ *Step +Time *$/ || /^Finished mdrun/ { certain = last }
END { print certain + 0, last + 0 }'
}

# How fast mdrun was, as the newest log in the folder $1 ends; nothing if that does not say it.
speed_in() {
    newest=$(cd -- "$1" && ls -t -- md.log md.part*.log 2>/dev/null | head -n 1)
    if [ -z "$newest" ]; then return; fi
    # A log goes on where the one of the last start ended: the last speed counts.
    tail -n 400 -- "$1/$newest" | awk '
/M E G A - F L O P S/ { speed = ""; time = ""; next }
$1 == "Time:" { time = $3; next }
$1 == "Performance:" { speed = $2; next }
END {
    if (speed == "" || time == "") exit
    print "performance=" speed
    print "time=" time
}'
}

# Puts the checkpoint before in the place of state.cpt in the folder $1, if GROMACS can read that one alone, and says so; $2
# stands in front of what it says. What is damaged is kept. Ends with 12 if there was a checkpoint and none is left, since mdrun
# would begin again, and move away what it computed. In a shell of its own: its variables are nobody else's.
find_checkpoint() (
    file=$1/state.cpt before=$1/state_prev.cpt kept=
    if is_whole "$file"; then exit; fi
    if [ -e "$file" ] && ! [ -d "$file" ] && ! words=$(cat -- "$file" 2>&1 >/dev/null); then
        printf '\nFatal error:\n%sstate.cpt cannot be read: %s\n\n' "$2" "$words"
        exit 12
    fi
    logged=$(logged_steps "$1")
    if ! is_whole "$before"; then
        # What is wrong with a file that is there, mdrun says.
        if [ -e "$file" ] || [ "${logged% *}" -eq 0 ]; then exit; fi
        printf '\nFatal error:\n%sstate.cpt is missing, but a checkpoint had reached step %s\n\n' "$2" "${logged% *}"
        exit 12
    fi
    # A newer GROMACS wrote it: nothing is wrong with it, and mdrun says so.
    if [ -f "$file" ] && gmx -quiet check -f "$file" 2>&1 </dev/null | tr '\n' ' ' | grep -q 'checkpoint file of version'; then
        exit
    fi
    reached=${logged#* } why='is missing'
    cp -- "$before" "$1/new.cpt" || { rm -f -- "$1/new.cpt" && exit 6; }
    if [ -e "$file" ]; then
        number=1
        while [ -e "$1/state_damaged$number.cpt" ]; do number=$((number + 1)); done
        kept=$1/state_damaged$number.cpt why="is damaged, and kept as state_damaged$number.cpt"
        mv -- "$file" "$kept" || exit 6
        reached=$(step_of "$kept" 2>/dev/null) || reached=${logged#* }
    fi
    step=$(step_of "$1/new.cpt" 2>/dev/null) || exit 6
    # Up to this step the logs name checkpoints that are gone.
    printf '%s\n' "${logged#* }" >"$1/.restored" && mv -f -- "$1/new.cpt" "$file" || exit 6
    if [ "$reached" -gt "$step" ]; then again="$((reached - step)) steps are"; else again='what came after it is'; fi
    printf '%sgoes on from state_prev.cpt at step %s: state.cpt %s; %s computed again\n' "$2" "$step" "$why" "$again"
)
