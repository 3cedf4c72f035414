// The two shapes that an OpenAPI document does not describe: stored messages and the events of a turn.

export interface TextPart {
  type: 'text';
  text: string;
}

export interface ReasoningPart {
  type: 'reasoning';
  content: string;
}

export interface ToolCallPart {
  type: 'tool_call';
  id: string;
  tool: string;
  args: Record<string, unknown>;
}

export interface AttachmentPart {
  type: 'attachment';
  kind: 'image' | 'video' | 'audio' | 'file';
  content: { type: 'base64'; base64: string };
  mimeType: string;
}

export interface ToolResultPart {
  type: 'tool_result';
  id: string;
  tool: string;
  parts: (TextPart | AttachmentPart)[];
  isError: boolean;
}

export interface UserMessage {
  role: 'user';
  parts: (TextPart | AttachmentPart)[];
  createdAt?: string;
}

export interface AssistantMessage {
  role: 'assistant';
  parts: (TextPart | ReasoningPart | ToolCallPart)[];
  meta: { inputTokens: number; outputTokens: number; totalTokens: number; modelId?: string };
  finishReason: string;
  interrupted?: boolean;
  createdAt?: string;
}

export interface ToolResultMessage {
  role: 'tool_result';
  parts: ToolResultPart[];
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage;

/** Data of each event name that the page acts on. */
export interface TurnEvents {
  reasoning: { delta: string };
  text: { delta: string };
  tool_call: { id?: string; name: string; args: Record<string, unknown> };
  tool_result: { id: string; name: string; content: string; isError: boolean };
  tool_approval: {
    id: string;
    name: string;
    args: Record<string, unknown>;
    timeoutSeconds: number;
  };
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
