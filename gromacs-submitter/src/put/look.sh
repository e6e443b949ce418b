# The arguments are paths from the root of the volume. Prints a line for each: what has the path, and the size of a file in bytes.
for path do
    found=$(walk "$path" look)
    if [ "$found" = file ]; then
        found="file $(stat -c %s -- "./$path")"
    fi
    printf '%s\n' "$found"
done
