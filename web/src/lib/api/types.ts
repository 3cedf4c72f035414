// Short names for the generated types.
import type { components } from './schema';

type Schemas = components['schemas'];

/** A chat; only the list says whether one is being answered. */
export type ChatInfo = Schemas['ChatInfo'] & { live?: boolean };
export type ChatChange = Schemas['ChatEdit'];
export type SendRequest = Schemas['SendRequest'];
export type Model = Schemas['ModelInfo'];
export type Persona = Schemas['PersonaBody'];
export type PersonaInput = Schemas['PersonaEdit'];
export type PersonaFile = Schemas['PersonaFileEntry'][];
export type SearchHit = Schemas['SearchHit'];
export type EntityView = Schemas['EntityView'];
export type Note = Schemas['Note'];
export type NoteDetail = Schemas['NoteDetail'];
export type RelationshipView = Schemas['RelationshipView'];
export type MemoryHits = Schemas['MemorySearch'];
export type Subject = Schemas['EntitySubject'] | Schemas['RelationshipSubject'];
export type Erasure = Schemas['Erasure'];
/** What to erase by: words that occur in it, or its days. */
export type EraseTarget = { text: string } | { from: string; to: string };
export type Job = Schemas['JobInfo'];
export type ReplayStatus = Schemas['ReplayStatus'];
export type ReembedStatus = Schemas['ReembedStatus'];
export type ToolNamespace = Schemas['NamespaceBody'];
export type UserMessage = Schemas['UserMessage'];
export type AssistantMessage = Schemas['AssistantMessage'];
/** Its one part is a fixed-length list, which the generator leaves untyped. */
export type ToolResultMessage = Omit<Schemas['ToolResultMessage'], 'parts'> & {
  parts: Schemas['ToolResultPart'][];
};
export type AttachmentPart = Schemas['AttachmentPart'];
export type Message = UserMessage | AssistantMessage | ToolResultMessage;
