/** Leads the keyboard to the details of what is selected. */
export const showDetails = (): void => document.querySelector<HTMLElement>(".details")?.focus();
