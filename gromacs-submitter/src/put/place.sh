# $1: the folder with the files that came, $2: `replace` if files may be replaced. Then three words for each file: its name there, its
# SHA-256, and its path. Gives each its path, and prints a line for each: `placed`, `broken` if it is another file than was sent, or
# what is in the way.
staging=$1
replace=$2
shift 2
while [ $# -gt 2 ]; do
    staged=./$staging/$1
    sum=$(sha256sum <"$staged") || exit 6
    if [ "${sum%% *}" != "$2" ]; then
        rm -f -- "$staged"
        echo broken
        shift 3
        continue
    fi
    found=$(walk "$3" make) || exit 6
    if [ "$found" = file ] && [ "$replace" = replace ]; then
        mv -f -T -- "$staged" "./$3" || exit 6
        found=placed
    elif [ "$found" = nothing ]; then
        # What came there since is left alone, and the file stays behind; some versions call that a failure.
        mv -n -T -- "$staged" "./$3"
        found=placed
        if [ -e "$staged" ]; then
            found=$(walk "$3" look)
            [ "$found" != nothing ] || exit 6
        fi
    fi
    echo "$found"
    shift 3
done
