import { defineConfig } from 'vitest/config';

// Browser tests share one browser and one system, so files run one after the other.
export default defineConfig({
  test: {
    include: process.env['DAAPU_FAKE'] ? ['e2e/**/*.e2e.ts'] : ['e2e/live/*.e2e.ts'],
    environment: 'node',
    fileParallelism: false,
    testTimeout: Number(process.env['DAAPU_E2E_TIMEOUT'] ?? 300_000),
    hookTimeout: 60_000,
    globalSetup: ['./e2e/setup.ts'],
  },
});
