// The sender rules of protocol chapter 5.3: what the AI SDK lets pass and a Bubble sender may not do.

const OUTCOMES = new Set([
  'tool-output-available',
  'tool-output-error',
  'tool-output-denied',
  'tool-input-error',
]);
const SHOWN = new Set(['tool-input-start', 'tool-input-available', 'tool-input-error']);

/** Reads the chunks of one run in order and returns what is wrong with each; then with the end. */
export class SenderRules {
  #parts = new Map(); // id of an open part → text or reasoning
  #calls = new Map(); // tool call id → the state it is in
  #over = null; // what ended the message

  read(chunk) {
    if (this.#over) return [`${chunk.type} after ${this.#over}`];
    const [kind, step] = chunk.type.split('-');
    if (kind === 'text' || kind === 'reasoning') return this.#words(kind, step, chunk);
    if ('toolCallId' in chunk) return [...this.#call(chunk), ...child(chunk)];
    if (chunk.type === 'error') return ['an error chunk'];
    if (chunk.type === 'finish' || chunk.type === 'abort') return this.#end(chunk.type);
    return [];
  }

  /** The run is over; nothing may be open, and nothing may follow. */
  #end(how) {
    this.#over = how;
    const parts = [...this.#parts].map(([id, kind]) => `${kind} ${id} open at the ${how}`);
    const calls = [...this.#calls]
      .filter(([, state]) => state !== 'settled')
      .map(([id]) => `call ${id} without an outcome at the ${how}`);
    return [...parts, ...calls];
  }

  end() {
    return this.#over ? [] : this.#end('end');
  }

  #words(kind, step, { id, delta }) {
    if (step === 'start') {
      const twice = this.#parts.has(id);
      this.#parts.set(id, kind);
      return twice ? [`${kind} ${id} is open already`] : [];
    }
    if (this.#parts.get(id) !== kind) return [`${kind}-${step} for ${id}, which is not open`];
    if (step === 'end') this.#parts.delete(id);
    return step === 'delta' && /\p{Surrogate}/u.test(delta) ? [`half a character in ${id}`] : [];
  }

  #call({ type, toolCallId: id, approvalId, preliminary }) {
    const state = this.#calls.get(id);
    if (state === 'settled') return [`${type} for call ${id}, which has its outcome`];
    if (type === 'tool-approval-request') return this.#asked(id, state, approvalId);
    if (state === undefined && !SHOWN.has(type)) return [`${type} for unknown call ${id}`];
    if (OUTCOMES.has(type)) {
      if (!preliminary) this.#calls.set(id, 'settled');
    } else if (type === 'tool-input-available') {
      this.#calls.set(id, 'shown');
      if (state !== undefined && state !== 'begun') return [`call ${id} is shown twice`];
    } else if (type === 'tool-input-start') {
      this.#calls.set(id, 'begun');
      if (state !== undefined) return [`call ${id} begins twice`];
    }
    return [];
  }

  #asked(id, state, approvalId) {
    this.#calls.set(id, 'asked');
    const faults = [];
    if (state !== 'shown') faults.push(`approval of call ${id} asked while it is ${state}`);
    if (approvalId !== id) faults.push(`approval of call ${id} has the id ${approvalId}`);
    return faults;
  }
}

/** The fold keeps only the second of the two names of a sub-agent's thread: both, or none. */
function child({ toolCallId, childThreadId, toolMetadata }) {
  return childThreadId === toolMetadata?.childThreadId
    ? []
    : [`call ${toolCallId} names its thread ${childThreadId} and ${toolMetadata?.childThreadId}`];
}
