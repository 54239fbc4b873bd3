// One step of decoding, with fetch: node sample.mjs [http://HOST:PORT]

const address = process.argv[2] ?? "http://127.0.0.1:8090";
const vocabSize = 8;

// The last position's logits of two sequences, [batchSize, vocabSize]; here: made up.
const logits = new Float32Array(2 * vocabSize); // little-endian wherever Node runs but on s390x
for (let token = 0; token < vocabSize; token++) {
  logits[token] = ((token * 7) % 11) * 0.5;
  logits[vocabSize + token] = ((token * 5) % 11) * 0.5;
}

const query = new URLSearchParams({
  vocab_size: vocabSize,
  temperature: [0.7, 1.0], // one value for all rows, or one a row
  top_k: 40,
  top_p: 0.95,
  seed: [11, 12],
  offset: 3, // tokens that were drawn before this one
  n: 4,
});
const response = await fetch(`${address}/sample?${query}`, {
  method: "POST",
  headers: { "Content-Type": "application/octet-stream" },
  body: logits,
  signal: AbortSignal.timeout(30_000),
});
const answer = await response.json();
if (!response.ok) {
  console.error(`${response.status}: ${answer.error.message}`);
  process.exit(1);
}

for (const tokenIds of answer.token_ids) console.log(tokenIds.join(" "));
