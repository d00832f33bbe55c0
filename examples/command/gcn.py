"""GCN (Kipf and Welling, 2017) in PyTorch, on one split after the other; the first epoch with the best validation accuracy is kept."""
import ppgnn_io
import torch
from torch.nn.functional import cross_entropy, dropout

job = ppgnn_io.load()
operator = torch.sparse_coo_tensor(torch.tensor(job.edges), torch.tensor(job.weights), (job.nodes, job.nodes))
features = torch.tensor(job.features)


class GCN(torch.nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.dropout = dropout
        self.layers = torch.nn.ModuleList([torch.nn.Linear(job.columns, hidden), torch.nn.Linear(hidden, job.classes)])

    def forward(self, x):
        first, second = self.layers
        hidden = torch.relu(operator @ first(dropout(x, self.dropout, self.training)))
        return operator @ second(dropout(hidden, self.dropout, self.training))


kept = []
for split, seed in enumerate(job.seeds):
    torch.manual_seed(seed)
    labels, train, val = (torch.tensor(of[split]) for of in (job.labels, job.train, job.val))
    model, best = GCN(**job.params), (-1.0, 0, None)
    optimizer = torch.optim.Adam(model.parameters(), job.training["lr"], weight_decay=job.training["weight-decay"])
    for epoch in range(job.training["epochs"]):
        optimizer.zero_grad()
        cross_entropy(model.train()(features)[train], labels[train]).backward()
        optimizer.step()
        with torch.no_grad():
            logits = model.eval()(features)
        accuracy = (logits.argmax(1) == labels)[val].float().mean().item()
        best = max(best, (accuracy, epoch, logits), key=lambda found: found[0])
    kept.append(best)
    print(f"{split + 1}/{len(job.seeds)} validation accuracy {best[0]:.3f}")
ppgnn_io.save([logits for _, _, logits in kept], best_epoch=[epoch for _, epoch, _ in kept])
