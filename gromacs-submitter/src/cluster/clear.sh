# $1: the folder of what is on its way, whose name no other client has. Removes it when the pod ends, for whatever reason.
staging=$1
# A command that still writes into it can be in the way of its removal once: then it is gone for it, too.
clear_up() { rm -rf -- "$staging" || rm -rf -- "$staging"; }
trap clear_up EXIT
trap 'exit 0' TERM
