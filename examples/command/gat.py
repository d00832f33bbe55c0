"""GAT (Veličković et al., 2018) of PyTorch Geometric, trained as `gcn.py` trains; the operator says which nodes are neighbours."""
import ppgnn_io
import torch
from torch.nn.functional import cross_entropy, dropout, elu
from torch_geometric.nn import GATConv

job = ppgnn_io.load()
features, edges = torch.tensor(job.features), torch.tensor(job.edges)


class GAT(torch.nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.dropout = dropout
        # The operator of the pipeline has the self-loops already.
        self.first = GATConv(job.columns, hidden, heads, dropout=dropout, add_self_loops=False)
        self.second = GATConv(hidden * heads, job.classes, dropout=dropout, add_self_loops=False)

    def forward(self, x):
        hidden = elu(self.first(dropout(x, self.dropout, self.training), edges))
        return self.second(dropout(hidden, self.dropout, self.training), edges)


kept = []
for split, seed in enumerate(job.seeds):
    torch.manual_seed(seed)
    labels, train, val = (torch.tensor(of[split]) for of in (job.labels, job.train, job.val))
    model, best = GAT(**job.params), (-1.0, 0, None)
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
