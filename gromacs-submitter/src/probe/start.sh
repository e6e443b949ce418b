# Starts mdrun, which the arguments are, in the folder of the row. mdrun takes the place of the shell, which as process 1 would
# ignore SIGTERM.
trap 'exit 143' TERM
find_checkpoint . '' || exit
exec "$@"
