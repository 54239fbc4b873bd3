"""One step of decoding, with the standard library alone: python3 sample.py [http://HOST:PORT]"""

import json
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"
VOCAB_SIZE = 8

# The last position's logits of two sequences, [batch_size, vocab_size]; here: made up.
logits = [[token * 7 % 11 * 0.5 for token in range(VOCAB_SIZE)],
          [token * 5 % 11 * 0.5 for token in range(VOCAB_SIZE)]]
body = b"".join(struct.pack(f"<{VOCAB_SIZE}f", *row) for row in logits)  # numpy: logits.astype("<f4").tobytes()

query = urllib.parse.urlencode({
    "vocab_size": VOCAB_SIZE,
    "temperature": "0.7,1.0",  # one value for all rows, or one a row
    "top_k": 40,
    "top_p": 0.95,
    "seed": "11,12",
    "offset": 3,  # tokens that were drawn before this one
    "n": 4,
})
request = urllib.request.Request(f"{ADDRESS}/sample?{query}", body, {"Content-Type": "application/octet-stream"})
try:
    with urllib.request.urlopen(request, timeout=30) as response:
        answer = json.load(response)
except urllib.error.HTTPError as refusal:
    sys.exit(f"{refusal.code}: {json.load(refusal)['error']['message']}")

for token_ids in answer["token_ids"]:
    print(*token_ids)
