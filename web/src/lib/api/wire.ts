// What an OpenAPI document does not describe: the state of a live turn, and its events.
import type { UserMessage } from './types';

export interface PendingApproval {
  id: string;
  name: string;
  args: Record<string, unknown>;
  timeoutSeconds: number;
}

export type RunState =
  | { state: 'idle' }
  | {
      state: 'running';
      turnId: string;
      startedAt: string;
      /** What it answers; the brain stores it only with its answer. */
      message: UserMessage;
      /** Index of the stored message that it replaces, null for a new one. */
      replaceFrom: number | null;
      lastEventId: string | null;
      pendingApprovals: PendingApproval[];
    };

/** Data of each event name that the page acts on. */
export interface TurnEvents {
  reasoning: { delta: string };
  text: { delta: string };
  tool_call: { id?: string; name: string; args: Record<string, unknown> };
  tool_result: { id: string; name: string; content: string; isError: boolean };
  tool_approval: PendingApproval;
  tool_approval_result: { id: string; decision: 'approve' | 'deny' | 'timeout' };
  retry: { message: string };
  usage: {
    inputTokens: number;
    outputTokens: number;
    cachedTokens?: number;
    modelId: string;
    round: number;
  };
  context: {
    contextLength: number;
    persona: number;
    tools: number;
    memory: number;
    history: number;
    answer: number;
    free: number;
    estimated?: boolean;
  };
  memory: { notes: number[]; entities: number[]; degraded: string | null };
  compaction: {
    droppedMessages: number;
    rounds: number;
    summaryChars: number;
    reason: 'proactive' | 'reactive';
  };
  stopped: { by: string };
  done: Record<string, never>;
  error: { message: string; type: string };
}

export type TurnEvent = {
  [Name in keyof TurnEvents]: { name: Name; data: TurnEvents[Name] };
}[keyof TurnEvents];
