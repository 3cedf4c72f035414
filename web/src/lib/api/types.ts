// Short names for the generated types.
import type { components } from './schema';

type Schemas = components['schemas'];

export type ChatInfo = Schemas['ChatInfo'];
export type ChatChange = Schemas['ChatChange'];
export type ChatExport = Schemas['ChatExport'];
export type SendRequest = Schemas['SendRequest'];
export type RunState = Schemas['RunState'];
export type PendingApproval = Schemas['PendingApproval'];
export type Model = Schemas['Model'];
export type Persona = Schemas['Persona'];
export type PersonaInput = Schemas['PersonaInput'];
export type SearchHit = Schemas['SearchHit'];
export type EntityView = Schemas['EntityView'];
export type Note = Schemas['Note'];
export type NoteDetail = Schemas['NoteDetail'];
export type RelationshipView = Schemas['RelationshipView'];
export type MemoryHits = Schemas['MemoryHits'];
export type Subject = Schemas['Subject'];
export type Job = Schemas['Job'];
export type ReplayStatus = Schemas['ReplayStatus'];
export type ReembedStatus = Schemas['ReembedStatus'];
export type ToolNamespace = Schemas['ToolNamespace'];
