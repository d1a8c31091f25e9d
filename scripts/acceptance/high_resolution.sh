#!/bin/bash
# A 4096 x 4096 PNG (65,537 tokens) through a Tiny LION-S model with random weights, in one call: time, and peak memory above
# the idle server with the model loaded (must stay under 1.5 GiB, decode included). Needs a build, python3 and python3-numpy.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2> /dev/null; rm -rf "$work"' EXIT

/usr/bin/python3 tools/make_model.py "$work/tiny" --size tiny --variant s --order "${ORDER:-s}" > /dev/null
/usr/bin/python3 - "$work/image.png" <<'PY'
import struct, sys, zlib, numpy
side = 4096
y, x = numpy.mgrid[0:side, 0:side]
noise = numpy.random.default_rng(0).integers(0, 32, (side, side))
pixels = numpy.stack([(x // 16 + noise) % 256, (y // 16 + noise) % 256, ((x + y) // 32 + noise) % 256], 2).astype(numpy.uint8)
rows = numpy.concatenate([numpy.zeros((side, 1), numpy.uint8), pixels.reshape(side, -1)], 1).tobytes()
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                              + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
PY
ls -l "$work/image.png" | awk '{print "image: 4096 x 4096 PNG, " $5 " bytes"}'

for type in bfloat16 float32; do
  build/release/bin/lion-server --model "$work/tiny" --host 127.0.0.1 --grpc-port 0 --metrics-port 0 --compute-type "$type" 2> "$work/log" &
  server=$!
  port=""
  until [ -n "$port" ]; do
    if ! kill -0 "$server" 2> /dev/null; then
      server=""
      cat "$work/log"
      if [ "$type" = bfloat16 ] && grep -q "cannot compute in bfloat16" "$work/log"; then
        echo "bfloat16: SKIPPED, this machine cannot compute in it"
        continue 2
      fi
      exit 1
    fi
    port=$(sed -n 's/.*SERVING on .* port \([0-9]*\).*/\1/p' "$work/log" | head -n 1)
    sleep 0.1
  done
  idle=$(awk '/VmRSS/ {print $2}' "/proc/$server/status")
  echo 5 > "/proc/$server/clear_refs"  # resets the peak
  for run in 1 2 3; do
    begin_us=${EPOCHREALTIME/[.,]/}
    build/release/bin/lion embed "$work/image.png" --server "127.0.0.1:$port" \
      --resize none --timeout-ms 600000 --output "$work/vectors.jsonl" 2> "$work/client" \
      || { cat "$work/client"; exit 1; }
    took_ms=$(((${EPOCHREALTIME/[.,]/} - begin_us) / 1000))
    grep -q '"tokens":65537' "$work/vectors.jsonl" || { cat "$work/client" "$work/vectors.jsonl"; exit 1; }
    echo "$type run $run: 65537 tokens in $((took_ms / 1000)).$(printf %03d $((took_ms % 1000))) s, client and decode included"
  done
  peak=$(awk '/VmHWM/ {print $2}' "/proc/$server/status")
  above=$(((peak - idle) / 1024))
  echo "$type: idle $((idle / 1024)) MiB, peak $((peak / 1024)) MiB: $above MiB above (limit 1536)"
  [ "$above" -lt 1536 ]
  kill -TERM "$server"
  wait "$server"
  server=""
done
