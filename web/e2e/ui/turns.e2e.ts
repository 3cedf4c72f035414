// What a scripted brain can make happen to a turn.
import { beforeEach, expect, it } from 'vitest';

import { answered, browserTests, composer, open, send, stop, url } from '../browser';

const reset = (body: object = {}) =>
  fetch(`${url}/test/reset`, { method: 'POST', body: JSON.stringify(body) });

browserTests('turns', () => {
  beforeEach(async () => {
    await reset();
  });

  it('shows reasoning and tools folded, and their result on demand', async () => {
    const page = await open();
    await send(page, 'tool');
    await answered(page, 1);
    expect(await page.getByText('Sunny, 24 C').isVisible()).toBe(false);
    await page.getByText('exa__web_search_exa').click();
    await page.getByText('Sunny, 24 C').waitFor();
    await page.getByText('Reasoning').click();
    await page.getByText('There is a tool for it.').waitFor();
  });

  it.each([
    ['Allow once', 'There is one file'],
    ['Refuse', 'Then I will not look.'],
  ])('answers an approval: %s', async (button, outcome) => {
    const page = await open();
    await send(page, 'approve');
    await page.getByRole('button', { name: button }).click();
    await page.getByText(outcome).waitFor();
    await answered(page, 1);
  });

  it('asks for an approval again after a reload', async () => {
    const page = await open();
    await send(page, 'approve');
    await page.getByRole('button', { name: 'Allow once' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Allow once' }).click();
    await answered(page, 1);
  });

  it('takes back what a retry abandons, and says so', async () => {
    const page = await open();
    await send(page, 'retry');
    await answered(page, 1);
    const text = await page.getByRole('region', { name: 'Conversation' }).innerText();
    expect(text).toContain('This stays.');
    expect(text).not.toContain('taken back');
    expect(text).toContain('1 retry');
  });

  it('joins a broken stream again without losing or doubling a word', async () => {
    const page = await open();
    await send(page, 'cut');
    await answered(page, 1);
    await page
      .getByText('One two three four five six seven eight nine ten.', { exact: true })
      .waitFor();
  });

  it('shows a failure where it happened and gives the words back', async () => {
    const page = await open();
    await send(page, 'fail please');
    const alert = page.getByRole('alert');
    await alert.getByText('The gateway answered 500.').waitFor();
    expect(await alert.innerText()).toContain('Caused by: out of memory');
    expect(await composer(page).inputValue()).toBe('fail please');
    await page.getByText('What had arrived').click();
    await page.getByText('I was about to').waitFor();
  });

  it('gives the words back when a stop keeps nothing', async () => {
    const page = await open();
    await send(page, 'slow');
    await page.getByText('word2').waitFor();
    await page.getByRole('button', { name: 'Stop and discard' }).click();
    await page.getByText('Stopped. Nothing was stored.').waitFor();
    expect(await composer(page).inputValue()).toBe('slow');
  });

  it('shows a refusal at the composer', async () => {
    await fetch(`${url}/api/maintenance`, {
      method: 'PUT',
      body: JSON.stringify({ enabled: true }),
    });
    const page = await open();
    await send(page, 'hello');
    await page.getByRole('alert').getByText('Maintenance mode is on.').waitFor();
    expect(await composer(page).inputValue()).toBe('hello');
  });

  it('keeps following when the reader leaves the chat and comes back', async () => {
    const page = await open();
    await send(page, 'slow');
    await page.getByText('word3').waitFor();
    await page.getByRole('link', { name: 'New chat', exact: true }).first().click();
    await page.getByText('What is on your mind?').waitFor();
    expect(await stop(page).count()).toBe(0);
    await page.goBack();
    await page.getByText('word60').waitFor();
    await answered(page, 1);
  });

  it('shows another browser the question and the answer that is being written', async () => {
    const page = await open();
    await send(page, 'slow and steady');
    await page.getByText('word3').waitFor();
    const other = await open(await page.evaluate(() => location.hash));
    await other.getByText('slow and steady', { exact: true }).waitFor();
    await other.getByText('word1 word2 word3').waitFor();
    await other.getByText('A message sent from elsewhere is being answered.').waitFor();
    await stop(page).click();
    await answered(page, 1);
    await answered(other, 1);
    expect(await composer(other).inputValue()).toBe('');
  });

  it('catches up when the reader comes back to the window', async () => {
    const page = await open();
    await send(page, 'retry');
    await answered(page, 1);
    const other = await open(await page.evaluate(() => location.hash));
    await answered(other, 1);
    await send(page, 'compact this');
    await answered(page, 2);
    await other.evaluate(() => dispatchEvent(new Event('focus')));
    await other.getByText('compact this', { exact: true }).waitFor();
    await answered(other, 2);
  });

  it('says that an answer waits for a decision', async () => {
    const page = await open();
    await send(page, 'approve');
    await page.getByRole('button', { name: 'Allow once' }).waitFor();
    const said = await page.getByRole('status').allTextContents();
    expect(said).toContain('This tool asks before it runs.');
  });

  it('answers again and edits without losing the old answer first', async () => {
    const page = await open();
    await send(page, 'retry');
    await answered(page, 1);
    await page.getByRole('button', { name: 'Answer again' }).click();
    await answered(page, 1);
    await page.getByText('retry', { exact: true }).hover();
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('textbox', { name: 'Edit your message' }).fill('fail now');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await page.getByText('This stays.').waitFor();
    expect(await composer(page).inputValue()).toBe('');
  });

  it('tells what the memory and a compaction did', async () => {
    const page = await open();
    await send(page, 'compact');
    await answered(page, 1);
    await page.getByText('12 older messages summarised').waitFor();
    await page.getByText('3 notes and 1 entity from memory', { exact: true }).waitFor();
    await send(page, 'plain');
    await answered(page, 2);
    await page.getByText('1 note from memory', { exact: true }).waitFor();
  });
});
