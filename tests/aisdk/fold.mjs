// Judges recorded threads with the real AI SDK: each run must fold, and keep the sender rules of 5.3.
//
//   node fold.mjs < events.ndjson
//
// stdin:  Bubble events, one envelope a line, of any number of threads.
// stdout: one JSON verdict a line for each run or bare message: {threadId, runId, parts, faults}.
// exit:   0 every one is good; 1 some are not; 2 the input is not what it should be.
import { readUIMessageStream, uiMessageChunkSchema } from 'ai';
import { SenderRules } from './rules.mjs';

const schema = uiMessageChunkSchema();

/** The events of the input, in order. Exits with 2 when a line is no event. */
async function events() {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const piece of process.stdin) text += piece;
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) unusable('no events');
  return lines.map((line, index) => {
    try {
      const event = JSON.parse(line);
      if (typeof event.threadId === 'string' && Number.isInteger(event.seq)) return event;
    } catch {
      // Told below, with its line
    }
    return unusable(`line ${index + 1} is no event`);
  });
}

function unusable(why) {
  process.stderr.write(`fold.mjs: ${why}\n`);
  process.exit(2);
}

/** The messages of a log, by thread and run: what was started, what was finished, the chunks. */
function grouped(log) {
  const messages = new Map();
  for (const { threadId, runId, type, payload } of log) {
    if (!['run_started', 'message_part', 'run_finished'].includes(type)) continue;
    const name = JSON.stringify([threadId, runId]);
    const message = messages.get(name) ?? { threadId, runId, chunks: [], faults: [] };
    messages.set(name, message);
    if (message.finished) message.faults.push(`${type} after run_finished`);
    if (type === 'run_started') message.started = true;
    if (type === 'run_finished') message.finished = true;
    if (type === 'message_part') message.chunks.push(payload.chunk);
  }
  return [...messages.values()];
}

/** The parts of the message that the SDK makes of these chunks, or why it refuses them. */
async function folded(chunks) {
  const stream = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const faults = [];
  const onError = (error) => faults.push(`the fold refuses it: ${error.message}`);
  let parts = [];
  try {
    for await (const message of readUIMessageStream({ stream, onError, terminateOnError: true }))
      parts = message.parts;
  } catch (error) {
    if (faults.length === 0) onError(error);
  }
  return { parts, faults };
}

async function judged({ threadId, runId, chunks, started, finished, faults }) {
  const rules = new SenderRules();
  const found = [...faults];
  if (started && !finished) found.push('never finished');
  if (finished && !started) found.push('never started');
  let shaped = true;
  for (const chunk of chunks) {
    const result = await schema.validate(chunk);
    if (result.success) found.push(...rules.read(chunk));
    else {
      shaped = false;
      found.push(`the schema refuses ${JSON.stringify(chunk).slice(0, 200)}`);
    }
  }
  found.push(...rules.end());
  const { parts, faults: refusals } = shaped ? await folded(chunks) : { parts: [], faults: [] };
  return { threadId, runId, parts, faults: [...found, ...refusals] };
}

const verdicts = await Promise.all(grouped(await events()).map(judged));
for (const verdict of verdicts) process.stdout.write(`${JSON.stringify(verdict)}\n`);
process.exitCode = verdicts.every(({ faults }) => faults.length === 0) ? 0 : 1;
