// What a page shows of stored messages: one round per user message, with all that answered it.
import type {
  AssistantMessage,
  AttachmentPart,
  Message,
  ToolResultMessage,
  UserMessage,
} from '../../api/types';

interface ToolResult {
  content: string;
  isError: boolean;
  images: string[];
}

export type ApprovalState = 'pending' | 'sending' | 'approve' | 'deny' | 'timeout';

export interface Approval {
  state: ApprovalState;
  timeoutSeconds: number;
  error: string | null;
}

interface TextSegment {
  kind: 'text';
  text: string;
}

interface ReasoningSegment {
  kind: 'reasoning';
  text: string;
}

export interface ToolSegment {
  kind: 'tool';
  id: string;
  name: string;
  args: Record<string, unknown>;
  result: ToolResult | null;
  approval: Approval | null;
}

export type Segment = TextSegment | ReasoningSegment | ToolSegment;

interface UserView {
  /** Position in the stored history. */
  index: number;
  text: string;
  images: string[];
  createdAt: string | null;
  /** The summary that a compaction left in place of older messages. */
  summary: boolean;
  /** Whether the history may be cut here (the rule of truncation). */
  editable: boolean;
}

export interface Round {
  key: string;
  user: UserView | null;
  segments: Segment[];
  /** Position of the last assistant message, null while there is none. */
  answerIndex: number | null;
  finishReason: string | null;
  interrupted: boolean;
  modelId: string | null;
  tokens: { input: number; output: number } | null;
}

const SUMMARY = 'CONTEXT COMPACTION: ';

/** Rounds in order; messages before the first user message form one without a user. */
export function roundsOf(messages: readonly Message[]): Round[] {
  const rounds: Round[] = [];
  messages.forEach((message, index) => {
    if (message.role === 'user') {
      rounds.push(emptyRound(`r${index}`, userView(message, index, messages)));
      return;
    }
    if (rounds.length === 0) rounds.push(emptyRound('prologue', null));
    const round = rounds.at(-1) as Round;
    if (message.role === 'assistant') addAssistant(round, message, index);
    else addResult(round, message);
  });
  return rounds;
}

function emptyRound(key: string, user: UserView | null): Round {
  return {
    key,
    user,
    segments: [],
    answerIndex: null,
    finishReason: null,
    interrupted: false,
    modelId: null,
    tokens: null,
  };
}

function userView(message: UserMessage, index: number, messages: readonly Message[]): UserView {
  const text = textOf(message);
  const summary = text.startsWith(SUMMARY);
  return {
    index,
    text: summary ? text.slice(SUMMARY.length) : text,
    images: picturesOf(message),
    createdAt: message.createdAt ?? null,
    summary,
    editable: !summary && (index === 0 || messages[index - 1]?.role === 'assistant'),
  };
}

export function textOf(message: UserMessage): string {
  return message.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** Pictures of a message as data URLs. */
export function picturesOf(message: UserMessage): string[] {
  return message.parts.flatMap((part) => (part.type === 'attachment' ? imagesOf(part) : []));
}

function imagesOf(part: AttachmentPart): string[] {
  return part.kind === 'image' ? [`data:${part.mimeType};base64,${part.content.base64}`] : [];
}

function addAssistant(round: Round, message: AssistantMessage, index: number): void {
  for (const part of message.parts) {
    if (part.type === 'text') round.segments.push({ kind: 'text', text: part.text });
    else if (part.type === 'reasoning')
      round.segments.push({ kind: 'reasoning', text: part.content });
    else {
      const { id, tool, args } = part;
      round.segments.push({
        kind: 'tool',
        id,
        name: tool,
        args: args as Record<string, unknown>,
        result: null,
        approval: null,
      });
    }
  }
  round.answerIndex = index;
  round.finishReason = message.finishReason;
  round.interrupted = message.interrupted === true;
  round.modelId = message.meta.modelId ?? round.modelId;
  const output = (round.tokens?.output ?? 0) + message.meta.outputTokens;
  round.tokens = { input: message.meta.inputTokens, output };
}

function addResult(round: Round, message: ToolResultMessage): void {
  for (const part of message.parts) {
    const call = round.segments.find(
      (segment): segment is ToolSegment => segment.kind === 'tool' && segment.id === part.id,
    );
    if (!call) continue;
    call.result = {
      content: part.parts
        .flatMap((piece) => (piece.type === 'text' ? [piece.text] : []))
        .join('\n'),
      isError: part.isError ?? false,
      images: part.parts.flatMap((piece) => (piece.type === 'attachment' ? imagesOf(piece) : [])),
    };
  }
}

/** The answer's text, as the copy button gives it. */
export function answerText(segments: readonly Segment[]): string {
  return segments
    .flatMap((segment) => (segment.kind === 'text' ? [segment.text] : []))
    .join('\n\n')
    .trim();
}
