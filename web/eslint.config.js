import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';

import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist/', 'node_modules/', 'src/lib/api/schema.d.ts', 'openapi.json'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node } },
    rules: {
      complexity: ['error', 12],
      'no-console': 'error',
      eqeqeq: 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: {
      parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig },
    },
    rules: { 'prefer-const': 'off', 'svelte/prefer-const': ['error', { destructuring: 'all' }] },
  },
  // Directions of knowledge: pages, stores, services, API. Nobody looks up.
  {
    files: ['src/lib/api/**', 'src/lib/markdown/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: ['**/services/**', '**/state/**', '**/components/**', '**/pages/**'] },
      ],
    },
  },
  {
    files: ['src/lib/services/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: ['**/state/**', '**/components/**', '**/pages/**'] },
      ],
    },
  },
  {
    files: ['src/lib/state/**'],
    rules: {
      'no-restricted-imports': ['error', { patterns: ['**/components/**', '**/pages/**'] }],
    },
  },
  {
    files: ['src/lib/components/**', 'src/pages/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [{ group: ['**/api/client*', '**/api/stream*'], message: 'Ask a store.' }] },
      ],
    },
  },
);
