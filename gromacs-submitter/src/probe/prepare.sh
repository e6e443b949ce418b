# $1: the folder of a command, $2: its working directory there, $3: UUID of the row. Run by sh -c; no user's string is ever part
# of it.
if ! [ -d "$1" ]; then
    # It says so if the file system is away.
    ls -d -- "$1" >/dev/null
    echo "there is no folder $1 on the volume; make it, and retry" >&2
    exit 4
fi
make_folder "$2" "$3"
printf 'prepared=1\n'
printf 'prepared=1\n' >"${TERMINATION_LOG:-/dev/termination-log}"
