// A turn that is running: its events, folded into what the page shows.
import type { PendingApproval, TurnEvent, TurnEvents } from '../../api/wire';
import type { ApprovalState, Segment, ToolSegment } from './rounds';

/** What a turn told about itself beside its answer. */
export interface TurnFacts {
  retries: string[];
  compactions: TurnEvents['compaction'][];
  memory: TurnEvents['memory'] | null;
  context: TurnEvents['context'] | null;
  usage: TurnEvents['usage'] | null;
}

export class LiveTurn {
  segments = $state<Segment[]>([]);
  facts = $state<TurnFacts>(noFacts());
  stopping = $state(false);
  stopped = $state(false);
  reconnecting = $state(false);
  lastEventId: string | undefined;
  // Where the current round of the model began: a retry takes back only what came after it.
  #roundStart = 0;
  #resultsCame = false;
  #waiting = '';
  #waitingKind: 'text' | 'reasoning' | null = null;
  #frame: (() => void) | null = null;

  get hasText(): boolean {
    return (
      this.#waitingKind === 'text' ||
      this.segments.some((segment) => segment.kind === 'text' && segment.text.trim() !== '')
    );
  }

  /** Forget everything: the server tells the turn again from its start. */
  reset(): void {
    this.#cancelFrame();
    this.#waiting = '';
    this.#waitingKind = null;
    this.segments = [];
    this.facts = noFacts();
    this.#roundStart = 0;
    this.#resultsCame = false;
    this.lastEventId = undefined;
  }

  apply(event: TurnEvent): void {
    if (event.name === 'text' || event.name === 'reasoning') {
      this.#delta(event.name, event.data.delta);
      return;
    }
    this.flush();
    this.#applyWhole(event);
  }

  setApproval(id: string, state: ApprovalState, error: string | null = null): void {
    const call = this.#call(id);
    if (call?.approval) Object.assign(call.approval, { state, error });
  }

  /** Bring what waits for the next frame onto the page now. */
  flush(): void {
    this.#cancelFrame();
    if (this.#waitingKind === null) return;
    const last = this.segments.at(-1);
    if (last?.kind === this.#waitingKind && this.segments.length > this.#roundStart) {
      last.text += this.#waiting;
    } else this.segments.push({ kind: this.#waitingKind, text: this.#waiting });
    this.#waiting = '';
    this.#waitingKind = null;
  }

  #applyWhole(event: Exclude<TurnEvent, { name: 'text' | 'reasoning' }>): void {
    switch (event.name) {
      case 'tool_call':
        this.#called(event.data);
        break;
      case 'tool_result':
        this.#returned(event.data);
        break;
      case 'tool_approval':
        this.#ask(event.data);
        break;
      case 'tool_approval_result':
        this.setApproval(event.data.id, event.data.decision);
        break;
      case 'retry':
        this.#takeBack(event.data.message);
        break;
      case 'compaction':
        this.facts.compactions.push(event.data);
        break;
      case 'memory':
        this.facts.memory = event.data;
        break;
      case 'context':
        this.facts.context = event.data;
        break;
      case 'usage':
        this.facts.usage = event.data;
        break;
      case 'stopped':
        this.stopped = true;
        break;
    }
  }

  #delta(kind: 'text' | 'reasoning', delta: string): void {
    if (this.#waitingKind !== kind) this.flush();
    this.#enterRound();
    this.#waitingKind = kind;
    this.#waiting += delta;
    this.#schedule();
  }

  // Deltas come faster than frames. A hidden page has no frames, so a timer stands in.
  #schedule(): void {
    if (this.#frame) return;
    if (document.hidden) {
      const timer = setTimeout(() => this.flush(), 250);
      this.#frame = () => clearTimeout(timer);
    } else {
      const frame = requestAnimationFrame(() => this.flush());
      this.#frame = () => cancelAnimationFrame(frame);
    }
  }

  #cancelFrame(): void {
    this.#frame?.();
    this.#frame = null;
  }

  #enterRound(): void {
    const open = this.segments.some((segment) => segment.kind === 'tool' && !segment.result);
    if (!this.#resultsCame || open) return;
    this.#resultsCame = false;
    this.#roundStart = this.segments.length;
  }

  #called(data: TurnEvents['tool_call']): void {
    this.#enterRound();
    const id = data.id ?? `call-${this.segments.length}`;
    if (this.#call(id)) return;
    this.segments.push({
      kind: 'tool',
      id,
      name: data.name,
      args: data.args,
      result: null,
      approval: null,
    });
  }

  #returned(data: TurnEvents['tool_result']): void {
    this.#resultsCame = true;
    // Older servers give calls no id: the first open call of that name is the one.
    const call =
      this.#call(data.id) ??
      this.segments.find(
        (segment): segment is ToolSegment =>
          segment.kind === 'tool' && segment.name === data.name && !segment.result,
      );
    if (call) call.result = { content: data.content, isError: data.isError, images: [] };
  }

  #ask(data: PendingApproval): void {
    let call = this.#call(data.id);
    if (!call) {
      this.#called({ id: data.id, name: data.name, args: data.args });
      call = this.#call(data.id);
    }
    if (call) {
      call.approval = { state: 'pending', timeoutSeconds: data.timeoutSeconds, error: null };
    }
  }

  #takeBack(message: string): void {
    this.facts.retries.push(message);
    if (!this.#resultsCame) this.segments.length = this.#roundStart;
  }

  #call(id: string): ToolSegment | undefined {
    return this.segments.find(
      (segment): segment is ToolSegment => segment.kind === 'tool' && segment.id === id,
    );
  }
}

function noFacts(): TurnFacts {
  return { retries: [], compactions: [], memory: null, context: null, usage: null };
}
