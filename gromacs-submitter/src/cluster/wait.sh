# Waits for commands, and ends when there was none for a minute: a client that was killed deletes no pod. Whatever has a number in /proc
# beside this shell is a command.
others() { [ $# -gt 1 ]; }
idle=0
while [ $idle -lt 6 ]; do
    # A signal ends only a wait at once.
    sleep 10 &
    wait $!
    if others /proc/[0-9]*; then idle=0; else idle=$((idle + 1)); fi
done
