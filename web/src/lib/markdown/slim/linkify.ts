// Stands in for the link finder of the Markdown parser, which we leave off; `autolinks.ts` finds plain addresses.

export function LinkifyIt(): void {
  // The parser makes one and never asks it anything.
}
