# Runs spark-submit ("$@"), passes on what it prints, and leaves its exception and the causes as the pod's
# termination message. The exit code is that of spark-submit.
set -o pipefail
exec 3>&1
"$@" 2>&1 >&3 3>&- | {
  said= last=
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line" >&2
    case $line in
      'Exception in thread "main" '* | 'Caused by: '* | 'Error: '*)
        # Kubernetes keeps the last 4096 bytes of a message.
        if [ "${#said}" -lt 2600 ]; then said+=${line:0:1300}$'\n'; fi ;;
      *[![:space:]]*) last=${line:0:1300} ;;
    esac
  done
  printf '%s' "${said:-$last}" >/dev/termination-log || :
}
