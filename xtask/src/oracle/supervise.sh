# Runs commands until standard input closes, which happens when whoever started this ends, however that comes about.
# Then stops them, the last first, and removes the directory.
#
# Usage: supervise DIRECTORY COMMAND…
directory=$1
shift
running=
number=0
for command; do
    number=$((number + 1))
    sh -c "exec $command" </dev/null >"$directory/$number.log" 2>&1 &
    running="$! $running"
done
cat >/dev/null
for process in $running; do
    kill "$process" 2>/dev/null
    wait "$process" 2>/dev/null
done
rm -rf "$directory"
