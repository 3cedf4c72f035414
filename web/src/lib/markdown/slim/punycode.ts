// Stands in for the international host names of the Markdown parser: the browser's address parser knows them.

export default {
  toASCII: (host: string): string =>
    URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host,
  toUnicode: (host: string): string => host,
};
