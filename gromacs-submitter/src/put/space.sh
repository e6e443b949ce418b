# Prints how much space is left on the volume, as df does.
exec df -P -k -- .
