# $1: the folder of the row, $2: how many lines, $3: the folder in it of one of several simulations, if its log is wanted.
# Prints the name of mdrun's newest log there, and its end. Without appending each start writes a part of its own.
[ -d "$1" ] || exit 4
cd -- "$1" || exit 5
if [ -n "${3-}" ]; then
    cd -- "./$3" 2>/dev/null || exit 7
fi
newest=$(ls -t -- md.log md.part*.log 2>/dev/null | head -n 1)
# Several simulations have a folder each.
[ -n "$newest" ] || newest=$(find . -path './*/*' \( -name md.log -o -name 'md.part*.log' \) -exec ls -t -- {} + 2>/dev/null \
    | sed -n '1s/^\.\///p')
[ -n "$newest" ] || exit 7
printf '%s\n' "${3:+$3/}$newest"
tail -n "$2" -- "$newest"
