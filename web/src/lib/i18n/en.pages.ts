// English: the words of the pages and dialogs that are loaded on use.
import { count } from './count';

export const enPages = {
  realModel: {
    about:
      'The demonstration model is small, runs on this machine and shows that everything works. It knows little and is often wrong.',
    intro:
      'Write a config.jsonc beside the Makefile and start daapu again. Any server that speaks the OpenAI API will do. Its usual address:',
    servers: [
      ['llama.cpp', 'http://127.0.0.1:8080/v1'],
      ['Ollama', 'http://127.0.0.1:11434/v1'],
      ['vLLM', 'http://127.0.0.1:8000/v1'],
      ['LM Studio', 'http://127.0.0.1:1234/v1'],
      ['Hosted gateway', 'its address, with a key'],
    ] as const,
    example: 'In config.jsonc, here for Ollama',
    note: 'For Ollama, fetch both models first (ollama pull qwen3:8b, ollama pull bge-m3) and start it with OLLAMA_CONTEXT_LENGTH=32768. For another server, change baseUrl and the names of the models everywhere they stand. Then .venv/bin/daapu doctor asks every model and says what disagrees. docs/how-to/connect-a-model.md tells the rest, config.example.jsonc explains every setting. If the server uses port 8080 itself, give daapu another one (server.port).',
  },
  archive: {
    intro: 'Chats that are out of the way. They are still searched.',
    empty: 'Nothing is archived. “Archive” in the menu of a chat puts it here.',
    restore: 'Back to the list',
    restored: 'It is in the list again.',
  },
  login: {
    title: 'This daapu asks for its token',
    hint: 'It is the value of server.token in the configuration.',
    token: 'Token',
    submit: 'Open',
  },
  personas: {
    title: 'Personas',
    intro: 'A persona is a system prompt and the tools that go with it.',
    new: 'New persona',
    name: 'Name',
    prompt: 'System prompt',
    namespaces: 'Tool namespaces',
    namespacesHint: 'None chosen means all.',
    all: 'all tools',
    builtIn: 'built in',
    remember: 'Remember what is said in chats with this persona',
    forgets: 'not remembered',
    stale:
      'A tool namespace in red is not configured any more. Messages to this persona are refused until it is taken out of the list: edit the persona.',
    edit: (name: string) => `Edit ${name}`,
    delete: (name: string) => `Delete ${name}`,
    deleteTitle: 'Delete this persona?',
    deleteText: (name: string) => `“${name}” goes away. Chats that used it keep their messages.`,
    deleteConfirm: 'Delete',
    export: 'Export',
    import: 'Import',
    imported: (created: number, skipped: number) => `${created} created, ${skipped} already there.`,
  },
  memory: {
    title: 'Memory',
    intro: 'What daapu has kept from earlier chats.',
    browse: 'Browse',
    jobs: 'Jobs',
    transfer: 'Move and add',
    search: 'Search the memory',
    degraded: (reason: string) => `Part of the search was left out: ${reason}`,
    entities: 'Entities',
    notes: 'Notes',
    relationships: 'Relationships',
    attributes: 'Attributes',
    noEntities: 'Nothing is remembered yet. Delete a chat with remembering, and it appears here.',
    noHits: 'Nothing found.',
    noNotes: 'No notes.',
    counts: (notes: number, relations: number) =>
      `${count(notes, 'note', 'notes')}, ${count(relations, 'relationship', 'relationships')}`,
    noteCount: (n: number) => count(n, 'note', 'notes'),
    back: 'All of the memory',
    ended: 'ended',
    edited: 'edited',
    sources: (n: number) => count(n, 'source', 'sources'),
    openNote: 'Open note',
    note: 'Note',
    date: 'Date',
    from: 'Where it comes from',
    noSources: 'No source is recorded.',
    chatGone: 'a chat that is gone',
    history: 'History',
    changes: {
      created: 'written',
      edited: 'changed',
      forgotten: 'forgotten',
      restored: 'brought back',
      moved: 'moved',
    },
    authors: { person: 'by you', writer: 'by the memory', import: 'by an import' },
    forget: 'Forget',
    eraseTab: 'Erase',
    edit: 'Edit',
    editEntity: 'Edit name and category',
    name: 'Name',
    category: 'Category',
    attribute: 'Attribute',
    value: 'Value',
    addAttribute: 'Add an attribute',
    editAttribute: (key: string) => `Edit attribute ${key}`,
    noAttributes: 'No attributes.',
    relationshipActions: (sentence: string) => `Actions for “${sentence}”`,
    end: 'Has ended',
    revive: 'Holds again',
    merge: 'Merge…',
    mergeTitle: (name: string) => `Merge another entity into “${name}”`,
    mergeText: (name: string) =>
      `For an entity that was kept twice. All that is known of the other one moves to “${name}”, and the other one is gone. This cannot be undone.`,
    mergeSearch: 'Search the other entity',
    mergeConfirm: 'Merge',
    erase: 'Erase for good',
    forgotten: 'Forgotten.',
    eraseTitle: 'Erase for good?',
    eraseText:
      'The text, its sources and its history go away and cannot be brought back. The same statement in other words counts as a new one.',
    forgetEntityTitle: 'Forget this entity?',
    forgetEntityText: (name: string) =>
      `“${name}” with its notes no longer reaches any chat. Forgetting can be undone; erasing cannot.`,
    noJobs: 'Nothing is waiting.',
    jobStates: { waiting: 'waiting', running: 'running', retrying: 'retrying', parked: 'parked' },
    job: (messages: number, attempts: number) =>
      `${count(messages, 'message', 'messages')}, ${count(attempts, 'attempt', 'attempts')}`,
    jobRetry: 'Retry now',
    jobDelete: 'Delete job',
    jobDeleteText: 'Its content is lost: nothing of it will be remembered.',
    refresh: 'Refresh',
    digest: 'Remember a text',
    digestHint: 'Notes are drawn from it. This can take minutes.',
    digestSubmit: 'Remember',
    digestDone: 'Done.',
    replay: 'Replay an exported chat',
    replayHint: 'Reads an exported chat into the memory as if it had just taken place.',
    replayStart: 'Choose a file',
    replayStates: { idle: 'idle', running: 'running', finished: 'finished', failed: 'failed' },
    replayState: (windows: number, jobs: number) =>
      `${count(windows, 'window', 'windows')} read, ${count(jobs, 'job', 'jobs')} queued`,
    exportTitle: 'Export and import',
    exportHint: 'All entities, relationships and notes in one file.',
    export: 'Export',
    import: 'Import',
    overwrite: 'Imported attributes replace existing ones',
    imported: (notes: number, entities: number) =>
      `${count(notes, 'note', 'notes')} and ${count(entities, 'entity', 'entities')} added.`,
  },
  erase: {
    title: 'Erase by words or days',
    intro:
      'Takes memories away for good, with their sources and history. It counts first and erases nothing before you say so.',
    by: 'What to erase by',
    ways: { text: 'By words', dates: 'By days' },
    text: 'Memories that contain these words',
    from: 'From (the day it happened)',
    to: 'To',
    count: 'Count',
    found: 'This would be erased',
    done: 'Erased',
    nothing: 'Nothing fits.',
    counts: (found: {
      notes: number;
      attributes: number;
      relationships: number;
      entities: number;
      jobs: number;
      sources: number;
    }) =>
      [
        found.notes && count(found.notes, 'note', 'notes'),
        found.attributes && count(found.attributes, 'attribute', 'attributes'),
        found.relationships && count(found.relationships, 'relationship', 'relationships'),
        found.entities && count(found.entities, 'entity', 'entities'),
        found.jobs && count(found.jobs, 'waiting job', 'waiting jobs'),
        found.sources && count(found.sources, 'source', 'sources'),
      ]
        .filter(Boolean)
        .join(', '),
    chats:
      'These chats contain it. They are kept, and it can be remembered from them again, unless you erase them too:',
    chatsLeft: 'Chats that contained it:',
    includeChats: 'Erase these chats too',
  },
  tools: {
    title: 'Tools',
    intro:
      'What the model can use, by namespace. The configuration switches them on; docs/how-to/tools.md says how.',
    none: 'No tools are configured.',
    states: { ready: 'ready', down: 'down', disabled: 'disabled' },
    asks: 'asks first',
    budget: (seconds: number) => `${seconds} s a call`,
    reconnect: 'Reconnect',
    count: (n: number) => count(n, 'tool', 'tools'),
  },
  maintenance: {
    title: 'Maintenance',
    intro: 'Stops writing to the memory, so that it can be worked on.',
    switch: 'Maintenance mode',
    on: 'On: sending, deleting and everything that writes to the memory is refused.',
    off: 'Off: everything works.',
    reembed: 'Re-embed the memory',
    reembedHint:
      'Computes all vectors again, needed after a change of the embedding model. Maintenance mode must be on.',
    start: 'Start',
    states: { idle: 'idle', running: 'running', finished: 'finished', failed: 'failed' },
    counts: (entities: number, notes: number) =>
      `${count(entities, 'entity', 'entities')}, ${count(notes, 'note', 'notes')}`,
  },
  settings: {
    title: 'Settings',
    appearance: 'Appearance',
    themes: { system: 'Like the system', light: 'Light', dark: 'Dark' },
    behaviour: 'Behaviour',
    autoTitle: 'Name new chats after the first answer',
    models: 'Models',
    demoModel: 'demonstration',
    unmeasured:
      'What a model can do is not measured yet: .venv/bin/daapu doctor does it. What it found is shown here after the next start.',
    silent: (reason: string) =>
      `It did not answer when it was measured${reason ? ` (${reason})` : ''}. Check baseUrl, apiKey and modelId.`,
    window: (configured: number, measured: number) =>
      `contextLength is ${configured.toLocaleString('en')}, but its server was started with ${measured.toLocaleString('en')}. Lower the one or raise the other.`,
    promised: (capability: string) =>
      `${capability} did not work when it was measured. Take it out of capabilities, or switch it on in the server.`,
    unused: (capability: string) => `${capability} works. Add it to capabilities to use it.`,
    vision: 'sees pictures',
    context: (n: number) => `${n.toLocaleString('en')} tokens of context`,
    about: 'About',
    aboutText:
      'daapu is a chat with a long-term memory that runs on your own machine. This page loads nothing from elsewhere and reports nothing to anyone.',
    shortcuts: 'Keyboard shortcuts',
  },
  shortcuts: {
    title: 'Keyboard shortcuts',
    newChat: 'New chat',
    search: 'Search chats',
    focus: 'Write a message',
    send: 'Send',
    newline: 'New line',
    stop: 'Stop the answer',
    help: 'This list',
    sidebar: 'Show or hide the chats',
  },
};
