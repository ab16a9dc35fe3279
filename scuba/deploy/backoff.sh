# A crash: wait 1 s, and twice as long after each more of the last ten minutes, up to 30 s.
now=$(date +%s)
count=0 last=0
if [ -r crashes ]; then read -r count last <crashes; fi
if [ $((now - last)) -gt 600 ]; then count=0; fi
count=$((count + 1))
echo "$count $now" >crashes
delay=1
step=1
while [ "$step" -lt "$count" ] && [ "$delay" -lt 30 ]; do
    delay=$((delay * 2))
    step=$((step + 1))
done
if [ "$delay" -gt 30 ]; then delay=30; fi
echo "scuba: it crashed (exit code $1, signal $2), crash $count: again in $delay s"
sleep "$delay"
