# $1: how many lines, $2: the folder of one of several simulations in that of the row, if its log is wanted. Prints the name of
# mdrun's newest log there, and its end. Without appending each start writes a part of its own.
if [ -n "${2-}" ]; then
    cd -- "./$2" 2>/dev/null || exit 7
fi
newest=$(ls -t -- md.log md.part*.log 2>/dev/null | head -n 1)
# Several simulations have a folder each.
[ -n "$newest" ] || newest=$(find . -path './*/*' \( -name md.log -o -name 'md.part*.log' \) -exec ls -t -- {} + 2>/dev/null \
    | sed -n '1s/^\.\///p')
[ -n "$newest" ] || exit 7
printf '%s\n' "${2:+$2/}$newest"
tail -n "$1" -- "$newest"
